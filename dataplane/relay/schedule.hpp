// Which block goes from whom to whom in which step: the plan that every member of a group computes for
// itself, so that a message needs no negotiation. Pure values: a Schedule holds a few integers (and shares
// the group's racks), and any thread may use a const one. Rank 0 is the root; who that is, and in which order
// the others follow, is the group's choice. Each algorithm's plan is a file of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "dataplane/base/types.hpp"
#include "dataplane/relay/algorithm.hpp"
#include "dataplane/relay/binomial_pipeline.hpp"
#include "dataplane/relay/binomial_tree.hpp"
#include "dataplane/relay/chain.hpp"
#include "dataplane/relay/circulant.hpp"
#include "dataplane/relay/host_plan.hpp"
#include "dataplane/relay/hybrid.hpp"
#include "dataplane/relay/plan.hpp"
#include "dataplane/relay/racks.hpp"
#include "dataplane/relay/sequential.hpp"
#include "dataplane/relay/two_trees.hpp"

namespace rdmc::relay {

/// One member's part. `blocks` is the block count of a message everywhere, 1 … kMaxBlocks.
class Schedule {
 public:
  /// 1 <= members <= kMaxMembers, rank < members; racks that are known have so many members (all asserted).
  /// Only the hybrid, the site trees and the host plans ask for the racks; to the last they are hosts.
  /// Without two, or with one member in each, the host plans are the plan that they have between hosts.
  Schedule(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks = {});

  Rank rank() const { return Rank{rank_}; }
  std::uint32_t members() const { return members_; }
  bool is_root() const { return rank_ == 0; }

  /// binomial_pipeline, circulant: blocks - 1 + ceil(log2 members), which no algorithm can undercut (Bar-Noy
  /// and Kipnis 1994). binomial_tree: blocks x ceil(log2 members). chain: blocks + members - 2. sequential:
  /// blocks x (members - 1). hybrid, two_trees, site_trees, host_pipeline, host_trees: see there. 0 for one
  /// member.
  std::uint64_t steps(std::uint64_t blocks) const;

  /// What this member does in `step` (< steps(blocks)). O(log members).
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;

  /// The first block that this member receives, and from whom; nothing for the root. Unless
  /// first_source_needs_length(), the source does not depend on the block count and the block only by
  /// min(block, blocks - 1), so memory can be granted before a length is known.
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  /// Who sends `member` its first block; nothing for the root. A member tells the length of a message to
  /// those whose first source it is, before their first block.
  std::optional<Rank> first_source_of(Rank member, std::uint64_t blocks) const;

  /// Every member that this one may ever receive from / send to / either, ascending. O(log members) of them,
  /// but for the root of `sequential`, who sends to all.
  std::vector<Rank> sources() const;
  std::vector<Rank> destinations() const;
  std::vector<Rank> neighbours() const;

  /// The first step >= `step` in which this member receives from `source`; nothing when there is none.
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  /// The first step from `step` to `end` (exclusive, <= steps(blocks)) in which this member sends.
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const;

  /// When a block leaves this member.
  Pace pace() const;
  /// The step from which on this member sends `block` no more.
  std::uint64_t sent_by(std::uint64_t block, std::uint64_t blocks) const;

  /// The least slots of a receiver's ring with which nobody ever waits for one while all members go in step:
  /// exact, but for the trees and the host plans, which may name more. Waits always lead to earlier steps, so
  /// no ring of at least this size deadlocks however the members drift.
  std::uint64_t minimum_slots() const;

 private:
  using AnyPlan = std::variant<BinomialPipeline, BinomialTree, Chain, Sequential, Hybrid, HostPipeline,
                               TwoTrees, HostTrees, Circulant>;
  static AnyPlan plan_of(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks);

  std::uint32_t rank_;
  std::uint32_t members_;
  AnyPlan plan_;
};

/// How many members a block may pass on its way from the root to the last, at most.
std::uint64_t most_hops(Algorithm algorithm, std::uint32_t members);

}  // namespace rdmc::relay
