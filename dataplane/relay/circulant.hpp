// The circulant graph (Träff, "Round-optimal n-block broadcast schedules in logarithmic time", 2025, doi
// 10.1145/3735139). A phase has ceil(log2 members) steps. In step k of a phase every member sends to the
// member whose rank is higher by skip k, modulo the number of members. The first skip is 1. Each later skip
// is twice the skip before it, or twice that skip minus 1. The plan takes blocks - 1 + ceil(log2 members)
// steps for every number of members, and no plan can take fewer. No two members share a vertex. A message
// always ends with the end of a phase. So it may begin in the middle of a phase, depending on the block
// count. Therefore the first source depends on the block count (docs/decisions/0047). A plain value that any
// thread may use.
#pragma once

#include <array>

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

class Circulant {
 public:
  /// Precondition: rank < members. Takes O(log members) time.
  Circulant(Rank rank, std::uint32_t members);
  Circulant of(Rank rank) const { return {rank, members_}; }

  std::uint64_t steps(std::uint64_t blocks) const { return members_ == 1 ? 0 : blocks + depth_ - 1; }
  /// Takes O(1) time.
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const;
  std::optional<Transfer> first_receive(std::uint64_t blocks) const;
  std::vector<Rank> sources() const;
  std::vector<Rank> destinations() const;
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step, std::uint64_t blocks) const;
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const {
    return first_step(step, end, [&](std::uint64_t at_step) { return at(at_step, blocks).send.has_value(); });
  }
  Pace pace() const;
  std::uint64_t minimum_slots() const;

 private:
  static constexpr std::size_t kMostPhaseSteps = depth_of(kMaxMembers);

  /// One step of every phase, for this member. If it is step t of the message, the member receives block t -
  /// receive_lag and sends block t - send_lag.
  struct PhaseStep {
    std::uint32_t source = 0, destination = 0;
    std::uint8_t receive_lag = 0, send_lag = 0;
  };

  /// The number of steps of the first phase that are before the message's first step.
  std::uint64_t skipped(std::uint64_t blocks) const {
    return next_congruent(blocks - 1, 0, depth_) - (blocks - 1);
  }
  /// The first step >= `step` that has the number `index` in its phase and in which this member receives.
  std::optional<std::uint64_t> next_receive(std::size_t index, std::uint64_t step,
                                            std::uint64_t blocks) const;

  std::uint32_t rank_;
  std::uint32_t members_;
  std::uint64_t depth_;
  std::array<PhaseStep, kMostPhaseSteps> phase_{};
};

static_assert(Plan<Circulant>);

}  // namespace rdmc::relay
