// The root sends each block to one member after the other, and no member passes a block on. This plan is the
// baseline for comparisons, and the shortest plan for two members. It takes blocks x (members - 1) steps. A
// plain value that any thread may use.
#pragma once

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

class Sequential {
 public:
  /// Precondition: rank < members.
  Sequential(Rank rank, std::uint32_t members) : rank_(value_of(rank)), members_(members) {}
  Sequential of(Rank rank) const { return {rank, members_}; }

  std::uint64_t steps(std::uint64_t blocks) const { return blocks * (members_ - 1); }
  StepTransfers at(std::uint64_t step, std::uint64_t) const {
    const Transfer now{Rank{static_cast<std::uint32_t>(step % stride()) + 1}, step / stride()};
    if (rank_ == 0) return {now, std::nullopt};
    if (now.peer != Rank{rank_}) return {};
    return {std::nullopt, Transfer{Rank{0}, now.block}};
  }
  std::optional<Transfer> first_receive(std::uint64_t) const {
    if (rank_ == 0) return std::nullopt;
    return Transfer{Rank{0}, 0};
  }
  std::vector<Rank> sources() const { return rank_ == 0 ? std::vector<Rank>{} : std::vector<Rank>{Rank{0}}; }
  std::vector<Rank> destinations() const {
    std::vector<Rank> all;
    for (std::uint32_t rank = 1; rank_ == 0 && rank < members_; ++rank) all.push_back(Rank{rank});
    return all;
  }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step,
                                                 std::uint64_t blocks) const {
    if (rank_ == 0 || value_of(source) != 0) return std::nullopt;
    return before(next_congruent(step, rank_ - 1, stride()), steps(blocks));
  }
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t) const {
    return rank_ == 0 ? before(step, end) : std::nullopt;
  }
  Pace pace() const { return {.stride = stride(), .lead = 0, .lag = rank_ == 0 ? stride() - 1 : 0}; }
  std::uint64_t minimum_slots() const { return 1; }

 private:
  std::uint64_t stride() const { return std::max(members_, 2U) - 1; }

  std::uint32_t rank_;
  std::uint32_t members_;
};

static_assert(Plan<Sequential>);

}  // namespace rdmc::relay
