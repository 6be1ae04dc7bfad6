// Computes which member sends which block to which other member in each step. Every member of a group
// computes the plan for itself, so a message needs no negotiation. Pure values: a Schedule holds a few
// integers (and shares the group's racks), and any thread may use a const one. Rank 0 is the root. The group
// chooses the root and the order of the other members. Each algorithm's plan has a file of its own.
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
  /// plans, a rack is a host. If there are fewer than two hosts, or each host has one member, a host plan is
  /// the plan that it otherwise uses between hosts.
  Schedule(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks = {});

  Rank rank() const { return Rank{rank_}; }
  std::uint32_t members() const { return members_; }
  bool is_root() const { return rank_ == 0; }

  /// The number of steps; 0 for one member.
  /// binomial_pipeline, circulant: blocks - 1 + ceil(log2 members), and no algorithm can take fewer (Bar-Noy
  /// and Kipnis 1994).
  /// binomial_tree: blocks x ceil(log2 members).
  /// chain: blocks + members - 2.
  /// sequential: blocks x (members - 1).
  /// hybrid, two_trees, site_trees, host_pipeline, host_trees: see their files.
  std::uint64_t steps(std::uint64_t blocks) const;

  /// The transfers of this member in `step`. Precondition: step < steps(blocks). Takes O(log members) time.
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;

  /// The first block that this member receives, and its source; nullopt for the root. If
  /// first_source_needs_length() is false, the source does not depend on the block count, and the block is
  /// min(b, blocks - 1) for a fixed b. So memory can be granted before the length is known.
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  /// The source of the first block of `member`; nullopt for the root. A member announces the length of a
  /// message to each member of which it is the first source, before it sends the first block.
  std::optional<Rank> first_source_of(Rank member, std::uint64_t blocks) const;

  /// All members from which this one may ever receive, to which it may ever send, and both together; in
  /// ascending order. There are O(log members) of them, except at the root of `sequential`, which sends to
  /// all.
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
  /// The step from which on this member no longer sends `block`.
  std::uint64_t sent_by(std::uint64_t block, std::uint64_t blocks) const;

  /// The least number of slots of a receiver's ring with which no member ever waits for a slot if all
  /// members proceed at the same pace. The number is exact, except that it may be too large for the trees
  /// and the host plans. A wait always leads to an earlier step. So no ring of at least this size can
  /// deadlock, however far the members drift apart.
  std::uint64_t minimum_slots() const;

 private:
  using AnyPlan = std::variant<BinomialPipeline, BinomialTree, Chain, Sequential, Hybrid, HostPipeline,
                               TwoTrees, HostTrees, Circulant>;
  static AnyPlan plan_of(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks);

  std::uint32_t rank_;
  std::uint32_t members_;
  AnyPlan plan_;
};

/// The largest number of members that a block may pass on its way from the root to the last member.
std::uint64_t most_hops(Algorithm algorithm, std::uint32_t members);

}  // namespace rdmc::relay
