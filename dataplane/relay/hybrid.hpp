// The hybrid (RDMC, section 3): the binomial pipeline inside each rack and a chain between racks run at the
// same time. Each rack's head is the root of the pipeline in its rack. In each step, a member that has
// nothing to send inside its rack (BinomialPipeline::spare_sender) passes a block on to the head of the next
// rack. So each member still sends and receives at most one block in a step, and each rack's uplink carries
// the message at most once into the rack and once out of it.
//
// A rack of m members delays the racks after it by floor(log2 m) + 1 steps. For each rack, take the sum of
// the delays of all racks before it and of its own ceil(log2 m) steps. The plan takes blocks - 1 steps plus
// the largest of these sums. With one rack it is the binomial pipeline, and with one member in each rack it
// is the chain. A plain value that any thread may use.
#pragma once

#include "dataplane/relay/binomial_pipeline.hpp"
#include "dataplane/relay/racks.hpp"

namespace rdmc::relay {

class Hybrid {
 public:
  /// Precondition: rank < racks.members().
  Hybrid(Rank rank, Racks racks);
  Hybrid of(Rank rank) const { return {rank, racks_}; }

  std::uint64_t steps(std::uint64_t blocks) const;
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const;
  std::vector<Rank> destinations() const;
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const {
    return first_step(step, end, [&](std::uint64_t at_step) { return at(at_step, blocks).send.has_value(); });
  }
  Pace pace() const { return {.stride = 1, .lead = rack_.start, .lag = rack_.start + inside_.pace().lag}; }
  std::uint64_t minimum_slots() const;

 private:
  bool is_head() const { return rank_ == rack_.head; }
  const Rack* rack_before() const { return index_ == 0 ? nullptr : &racks_.all()[index_ - 1]; }
  const Rack* rack_behind() const {
    return index_ + 1 == racks_.all().size() ? nullptr : &racks_.all()[index_ + 1];
  }

  std::uint32_t rank_;
  Racks racks_;
  std::size_t index_;  // the index of this member's rack
  Rack rack_;
  BinomialPipeline inside_;
};

static_assert(Plan<Hybrid>);

}  // namespace rdmc::relay
