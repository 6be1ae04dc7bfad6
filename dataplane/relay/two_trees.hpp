// Two binary trees (trees.hpp). Blocks go down the two trees alternately. A member that passes blocks on in
// one tree is a leaf of the other tree, so all members send and receive at full rate. The plan takes up to 2
// log2 members steps more than the binomial pipeline. But each member has at most four neighbours, and it
// receives a block from each of its two sources in every other step. So if blocks have latency and compete
// for the receivers' links, this plan is delayed less than the other plans.
//
// The plan `site_trees` is the same with several sites, and each site has two trees of its own. In each tree
// one member can send to one more child (Trees::way_on). This member also sends the blocks of its tree to the
// next site, where they go down the same tree of that site. So each site's uplink carries every block at most
// once into the site and once out of it, and no member sends or receives more than one block in a step. A
// site delays the sites after it by the number of steps that a block takes to the members that pass it on,
// plus one. The racks of the group are the sites. A plain value that any thread may use.
#pragma once

#include <array>

#include "dataplane/relay/plan.hpp"
#include "dataplane/relay/racks.hpp"
#include "dataplane/relay/trees.hpp"

namespace rdmc::relay {

class TwoTrees {
 public:
  /// Preconditions: rank < members, and sites that are known have this number of members. Takes O(log
  /// members) time for each site.
  TwoTrees(Rank rank, std::uint32_t members, const Racks& sites = {});
  TwoTrees of(Rank rank) const { return {rank, members_, sites_}; }

  /// The number of steps. With one site, it is blocks + 2 ceil(log2 members) - 2. In the last one or two
  /// steps there may be no transfer.
  std::uint64_t steps(std::uint64_t blocks) const { return members_ == 1 ? 0 : blocks + fill_; }
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const { return peers(in_); }
  std::vector<Rank> destinations() const { return peers(out_); }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const;
  Pace pace() const;
  /// An upper bound of the slots that a receiver needs. It is the number of slots for the longest wait
  /// between the two trees of a site, and one more slot if a site passes blocks on.
  std::uint64_t minimum_slots() const { return slots_; }

 private:
  /// An edge over which blocks reach a receiver. Block `parity` moves over it in step `start`. After that,
  /// every second block follows in every second step.
  struct Edge {
    std::uint32_t peer = 0;
    std::uint64_t start = 0;
    std::uint64_t parity = 0;  ///< 0 for the first tree, 1 for the second tree
    bool is_first = false;     ///< the receiver's first block comes over this edge
  };
  using Edges = std::array<std::optional<Edge>, 2>;
  /// A site has two trees over its members. In the first site the root of the trees is the group's root. In
  /// every other site, the root of a tree is the member of the previous site that passes the blocks on.
  struct Site {
    /// The rank of position 0. Position 1 has the next rank.
    std::uint32_t root;
    /// The step in which the root of the site sends block 0 into the first tree.
    std::uint64_t start;
    Trees trees;
  };

  static Edges into(std::uint32_t position, const Site& site, const std::optional<Site>& before);
  static Edges out_of(std::uint32_t position, const Site& site, const std::optional<Site>& before,
                      const std::optional<Site>& behind);
  static std::vector<Rank> peers(const Edges& edges);
  static std::optional<std::uint64_t> block_on(const Edge& edge, std::uint64_t step, std::uint64_t blocks);
  static std::optional<std::uint64_t> next_on(const Edge& edge, std::uint64_t step, std::uint64_t blocks);
  static std::optional<Transfer> transfer_on(const Edges& edges, std::uint64_t step, std::uint64_t blocks);

  std::uint32_t members_;
  Racks sites_;
  std::uint64_t fill_ = 0;  // the number of steps in addition to one step for each block
  std::uint64_t slots_ = 1;
  Edges in_, out_;
};

static_assert(Plan<TwoTrees>);

}  // namespace rdmc::relay
