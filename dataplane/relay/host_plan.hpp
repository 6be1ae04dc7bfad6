// A host plan consists of a plan between hosts, in which each host is one member, and of a chain of members
// inside each host. The network carries every block to a host once, and the members of the host pass it on
// through memory. Each rack of the group is a host here, and the head of the rack represents the host.
//
// The heads exchange blocks in the even steps. In an odd step, a head passes a block on to the next member of
// its host. From there the block moves on by one member in each step. So every member still sends and
// receives at most one block in a step. The whole plan takes twice the steps of the plan between hosts, and
// in addition the steps of the longest chain. Steps inside a host are short, so the time of a message is the
// time of the network's steps. A plain value that any thread may use.
#pragma once

#include "dataplane/relay/binomial_pipeline.hpp"
#include "dataplane/relay/racks.hpp"
#include "dataplane/relay/two_trees.hpp"

namespace rdmc::relay {

template <typename Between>
class HostPlan {
 public:
  /// Precondition: rank < hosts.members().
  HostPlan(Rank rank, Racks hosts);
  HostPlan of(Rank rank) const { return {rank, hosts_}; }

  std::uint64_t steps(std::uint64_t blocks) const;
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const;
  std::vector<Rank> destinations() const;
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const;
  Pace pace() const;
  /// The result may be too large by one if all heads that have other members in their host receive every
  /// block late.
  std::uint64_t minimum_slots() const;

 private:
  bool is_head() const { return position_ == 0; }
  bool has_next() const { return position_ + 1 < host_.members; }
  /// The step in which block 0 moves on to position `position` of the host with this index. For position 0 it
  /// is the step from which on the head certainly has block 0.
  std::uint64_t entry(std::size_t index, std::uint64_t position) const;
  std::uint64_t entry() const { return entry(index_, position_); }
  Rank head_of(Rank host) const { return Rank{hosts_.all()[value_of(host)].head}; }

  std::uint32_t rank_;
  Racks hosts_;
  std::size_t index_;  // the index of this member's host
  Rack host_;
  std::uint32_t position_;  // the position in that host, from 0
  Between between_;
};

using HostPipeline = HostPlan<BinomialPipeline>;
using HostTrees = HostPlan<TwoTrees>;
static_assert(Plan<HostPipeline> && Plan<HostTrees>);

}  // namespace rdmc::relay
