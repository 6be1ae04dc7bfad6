// A plan between hosts, each of which takes part as one member, and a chain inside each: the network carries
// every block to a host once, and memory carries it on. Of the racks that a group knows each is a host here,
// and its head the host's representative.
//
// Representatives trade blocks in the even steps and pass each on to the first of their host in an odd one;
// from there it goes on by one member a step. So everybody still sends and receives at most one block a step,
// and the whole takes twice the steps of the plan between hosts and the longest chain's. Steps inside a host
// are short: what a message takes is the network's half. A plain value; any thread.
#pragma once

#include "dataplane/relay/binomial_pipeline.hpp"
#include "dataplane/relay/racks.hpp"
#include "dataplane/relay/two_trees.hpp"

namespace rdmc::relay {

template <typename Between>
class HostPlan {
 public:
  /// rank < hosts.members().
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
  /// One more than needed where all representatives that others wait for get every block late.
  std::uint64_t minimum_slots() const;

 private:
  bool is_head() const { return position_ == 0; }
  bool has_next() const { return position_ + 1 < host_.members; }
  /// The step in which block 0 reaches position `position` of host number `index`: the head has it for
  /// certain then.
  std::uint64_t entry(std::size_t index, std::uint64_t position) const;
  std::uint64_t entry() const { return entry(index_, position_); }
  Rank head_of(Rank host) const { return Rank{hosts_.all()[value_of(host)].head}; }

  std::uint32_t rank_;
  Racks hosts_;
  std::size_t index_;  // of our host
  Rack host_;
  std::uint32_t position_;  // in it, from 0
  Between between_;
};

using HostPipeline = HostPlan<BinomialPipeline>;
using HostTrees = HostPlan<TwoTrees>;
static_assert(Plan<HostPipeline> && Plan<HostTrees>);

}  // namespace rdmc::relay
