// Two binary trees (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
// and scan", Parallel Computing 35, 2009): blocks go down both in turn, and who passes blocks on in one is a
// leaf of the other, so everybody sends and receives at full rate. It takes up to 2 log2 members steps more
// than the binomial pipeline, but each member has four neighbours at most, and from each of its two sources a
// block every other step: where blocks have latency and meet at receivers, it loses least. A plain value; any
// thread.
#pragma once

#include <array>

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

class TwoTrees {
 public:
  /// rank < members.
  TwoTrees(Rank rank, std::uint32_t members);
  TwoTrees of(Rank rank) const { return {rank, members_}; }

  /// blocks + 2 ceil(log2 members) - 2; in the last one or two of them there may be nothing left to do.
  std::uint64_t steps(std::uint64_t blocks) const {
    return members_ == 1 ? 0 : blocks + 2 * depth_of(members_) - 2;
  }
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const { return peers(in_); }
  std::vector<Rank> destinations() const { return peers(out_); }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const;
  Pace pace() const;
  /// At most what the longest wait between the two trees takes; a group may need fewer.
  std::uint64_t minimum_slots() const { return members_ == 1 ? 1 : 2 * depth_of(members_) - 1; }

 private:
  /// One way of blocks to `receiver`: block `parity` in step `start`, and every other block every other step.
  struct Edge {
    std::uint32_t peer = 0;
    std::uint64_t start = 0;
    std::uint64_t parity = 0;  ///< 0: of the first tree, 1: of the second
    bool is_first = false;     ///< the receiver's first block comes here
  };
  using Edges = std::array<std::optional<Edge>, 2>;

  Edges into(std::uint32_t rank) const;
  Edges out_of(std::uint32_t rank) const;
  static std::vector<Rank> peers(const Edges& edges);
  static std::optional<std::uint64_t> block_on(const Edge& edge, std::uint64_t step, std::uint64_t blocks);
  static std::optional<std::uint64_t> next_on(const Edge& edge, std::uint64_t step, std::uint64_t blocks);
  static std::optional<Transfer> transfer_on(const Edges& edges, std::uint64_t step, std::uint64_t blocks);

  std::uint32_t rank_;
  std::uint32_t members_;
  Edges in_, out_;
};

static_assert(Plan<TwoTrees>);

}  // namespace rdmc::relay
