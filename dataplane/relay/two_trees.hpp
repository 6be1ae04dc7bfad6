// Two binary trees (trees.hpp): blocks go down both in turn, and who passes blocks on in one is a leaf of the
// other, so everybody sends and receives at full rate. It takes up to 2 log2 members steps more than the
// binomial pipeline, but each member has four neighbours at most, and from each of its two sources a block
// every other step: where blocks have latency and meet at receivers, it loses least.
//
// The plan `site_trees` is the same with several sites, of which each has two trees of its own. In each tree
// one member has one child too few. It sends the blocks of this tree to the next site as well, where they
// begin the same tree. So each site's uplink carries every block once in and once out, and nobody sends or
// receives more than one block a step. A site delays those behind it by the steps that a block takes to these
// two members and one. The racks that a group knows are the sites. A plain value; any thread.
#pragma once

#include <array>

#include "dataplane/relay/plan.hpp"
#include "dataplane/relay/racks.hpp"
#include "dataplane/relay/trees.hpp"

namespace rdmc::relay {

class TwoTrees {
 public:
  /// rank < members; sites that are known have so many members. O(log members) for each site.
  TwoTrees(Rank rank, std::uint32_t members, const Racks& sites = {});
  TwoTrees of(Rank rank) const { return {rank, members_, sites_}; }

  /// With one site blocks + 2 ceil(log2 members) - 2; in the last one or two there may be nothing left to do.
  std::uint64_t steps(std::uint64_t blocks) const { return members_ == 1 ? 0 : blocks + fill_; }
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const { return peers(in_); }
  std::vector<Rank> destinations() const { return peers(out_); }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const;
  Pace pace() const;
  /// At most what the longest wait between the two trees of a site takes, and one where it passes blocks on.
  std::uint64_t minimum_slots() const { return slots_; }

 private:
  /// One way of blocks to `receiver`: block `parity` in step `start`, and every other block every other step.
  struct Edge {
    std::uint32_t peer = 0;
    std::uint64_t start = 0;
    std::uint64_t parity = 0;  ///< 0: of the first tree, 1: of the second
    bool is_first = false;     ///< the receiver's first block comes here
  };
  using Edges = std::array<std::optional<Edge>, 2>;
  /// Its trees stand over its members, and their root is the first site's root or, in the others, who passes
  /// blocks on from the site before.
  struct Site {
    std::uint32_t root;   ///< the rank of position 0, which position 1 follows
    std::uint64_t start;  ///< the step in which block 0 comes to it
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
  std::uint64_t fill_ = 0;  // steps beside one for each block
  std::uint64_t slots_ = 1;
  Edges in_, out_;
};

static_assert(Plan<TwoTrees>);

}  // namespace rdmc::relay
