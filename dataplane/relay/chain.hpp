// The chain: each member passes every block on to the member with the next rank. In every network, each link
// carries the message once. The disadvantage is that the last member waits for all members before it. The
// number of steps is blocks + members - 2. A plain value that any thread may use.
#pragma once

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

class Chain {
 public:
  /// Precondition: rank < members.
  Chain(Rank rank, std::uint32_t members) : rank_(value_of(rank)), members_(members) {}
  Chain of(Rank rank) const { return {rank, members_}; }

  std::uint64_t steps(std::uint64_t blocks) const { return members_ == 1 ? 0 : blocks + members_ - 2; }
  StepTransfers at(std::uint64_t step, std::uint64_t blocks) const {
    StepTransfers now;
    if (rank_ + 1 < members_ && step >= rank_ && step - rank_ < blocks)
      now.send = Transfer{Rank{rank_ + 1}, step - rank_};
    if (rank_ > 0 && step + 1 >= rank_ && step + 1 - rank_ < blocks)
      now.receive = Transfer{Rank{rank_ - 1}, step + 1 - rank_};
    return now;
  }
  std::optional<Transfer> first_receive(std::uint64_t) const {
    if (rank_ == 0) return std::nullopt;
    return Transfer{Rank{rank_ - 1}, 0};
  }
  std::vector<Rank> sources() const {
    return rank_ == 0 ? std::vector<Rank>{} : std::vector<Rank>{Rank{rank_ - 1}};
  }
  std::vector<Rank> destinations() const {
    return rank_ + 1 == members_ ? std::vector<Rank>{} : std::vector<Rank>{Rank{rank_ + 1}};
  }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step,
                                                 std::uint64_t blocks) const {
    if (rank_ == 0 || value_of(source) != rank_ - 1) return std::nullopt;
    return before(std::max<std::uint64_t>(step, rank_ - 1), blocks + rank_ - 1);
  }
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t blocks) const {
    if (rank_ + 1 == members_) return std::nullopt;
    return before(std::max<std::uint64_t>(step, rank_), std::min(end, blocks + rank_));
  }
  Pace pace() const { return {.stride = 1, .lead = rank_, .lag = rank_}; }
  std::uint64_t minimum_slots() const { return members_ > 2 ? 2 : 1; }

 private:
  std::uint32_t rank_;
  std::uint32_t members_;
};

static_assert(Plan<Chain>);

}  // namespace rdmc::relay
