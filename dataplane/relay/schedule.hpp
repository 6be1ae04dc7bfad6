// Computes which member sends which block to which other member in each step. Every member of a group
// computes the plan for itself, so a message needs no negotiation. A Schedule is a plain value: a few
// integers and a reference to the group's racks. Any thread may use a const Schedule. Rank 0 is the root. The
// group chooses the root and the order of the other members. Each algorithm's plan has a file of its own.
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

/// The part of one member in the plan. In all functions, `blocks` is the block count of a message, 1 …
/// kMaxBlocks.
class Schedule {
 public:
  /// Preconditions (asserted): 1 <= members <= kMaxMembers, rank < members, and racks that are known have
  /// this number of members. Only the hybrid, the site trees and the host plans use the racks; for the host
  /// plans, a rack is a host. A host plan uses another plan between the hosts. If there are fewer than two
  /// hosts, or each host has one member, that other plan is used for all members, without a host plan.
  Schedule(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks = {});

  Rank rank() const { return Rank{rank_}; }
  std::uint32_t members() const { return members_; }
  bool is_root() const { return rank_ == 0; }

  /// The number of steps. It is 0 if the group has one member, and otherwise:
  /// - binomial_pipeline, circulant: blocks - 1 + ceil(log2 members). No algorithm can take fewer steps
  ///   (Bar-Noy and Kipnis 1994).
  /// - binomial_tree: blocks x ceil(log2 members).
  /// - chain: blocks + members - 2.
  /// - sequential: blocks x (members - 1).
  /// - hybrid, two_trees, site_trees, host_pipeline, host_trees: as described in their files.
  std::uint64_t steps(std::uint64_t blocks) const;

  /// The transfers of this member in `step`. Precondition: step < steps(blocks). Takes O(log members) time.
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;

  /// The first block that this member receives, and its source. nullopt for the root. If
  /// first_source_needs_length() is false, the source does not depend on the block count, and the block is
  /// min(b, blocks - 1) for a fixed b. So memory can be granted before the length is known.
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  /// The source of the first block of `member`, or nullopt for the root. Before a source sends the first
  /// block to a member, it announces the length of the message to that member.
  std::optional<Rank> first_source_of(Rank member, std::uint64_t blocks) const;

  /// Three lists in ascending order: the members from which this member may ever receive, the members to
  /// which it may ever send, and the union of both lists. Each list has O(log members) entries. The root of
  /// `sequential` is an exception, because it sends to all members.
  std::vector<Rank> sources() const;
  std::vector<Rank> destinations() const;
  std::vector<Rank> neighbours() const;

  /// The first step >= `step` in which this member receives from `source`; nullopt if there is none.
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  /// The first step in [step, end) in which this member sends; nullopt if there is none. Precondition: end
  /// <= steps(blocks).
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const;

  /// The steps in which this member sends a block.
  Pace pace() const;
  /// From this step on, this member no longer sends `block`.
  std::uint64_t sent_by(std::uint64_t block, std::uint64_t blocks) const;

  /// The number of slots that a receiver's ring buffer needs so that no member ever waits for a slot, if all
  /// members proceed at the same pace. The number is the least possible one, except that it may be too large
  /// for the trees and the host plans. A member that waits always waits for a transfer of an earlier step. So
  /// a ring buffer of at least this size never leads to a deadlock, however far the members drift apart.
  std::uint64_t minimum_slots() const;

 private:
  using AnyPlan = std::variant<BinomialPipeline, BinomialTree, Chain, Sequential, Hybrid, HostPipeline,
                               TwoTrees, HostTrees, Circulant>;
  static AnyPlan plan_of(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks);

  std::uint32_t rank_;
  std::uint32_t members_;
  AnyPlan plan_;
};

/// An upper bound of the number of hops of a block on its path from the root to any member.
std::uint64_t most_hops(Algorithm algorithm, std::uint32_t members);

}  // namespace rdmc::relay
