// The binomial tree (RDMC, section 3). Each member that holds a block sends it to a member that lacks it. So
// the number of members that hold the block doubles with each step. The plan takes blocks x ceil(log2
// members) steps: ceil(log2 members) rounds for each block. A plain value that any thread may use.
//
// RDMC sends the whole message along one edge of the tree, and then along the next edge. Here each block
// goes down the whole tree before the next block does. This takes the same number of steps, and a relay
// needs memory for one block instead of the whole message (docs/decisions/0023).
#pragma once

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

class BinomialTree {
 public:
  /// Precondition: rank < members.
  BinomialTree(Rank rank, std::uint32_t members) : rank_(value_of(rank)), members_(members) {}
  BinomialTree of(Rank rank) const { return {rank, members_}; }

  std::uint64_t steps(std::uint64_t blocks) const { return members_ == 1 ? 0 : blocks * rounds(); }
  StepTransfers at(std::uint64_t step, std::uint64_t) const {
    const std::uint64_t block = step / rounds();
    const std::uint64_t round = step % rounds();
    StepTransfers now;
    if (round >= first_round() && (std::uint64_t{1} << round) + rank_ < members_)
      now.send = Transfer{Rank{rank_ + (std::uint32_t{1} << round)}, block};
    if (rank_ > 0 && round + 1 == first_round()) now.receive = Transfer{parent(), block};
    return now;
  }
  std::optional<Transfer> first_receive(std::uint64_t) const {
    if (rank_ == 0) return std::nullopt;
    return Transfer{parent(), 0};
  }
  std::vector<Rank> sources() const { return rank_ == 0 ? std::vector<Rank>{} : std::vector<Rank>{parent()}; }
  std::vector<Rank> destinations() const {
    std::vector<Rank> all;
    for (std::uint64_t round = first_round(); round < last_round(); ++round)
      all.push_back(Rank{rank_ + (std::uint32_t{1} << round)});
    return all;
  }
  std::optional<std::uint64_t> next_receive_from(Rank source, std::uint64_t step,
                                                 std::uint64_t blocks) const {
    if (rank_ == 0 || source != parent()) return std::nullopt;
    return before(next_congruent(step, first_round() - 1, rounds()), steps(blocks));
  }
  std::optional<std::uint64_t> next_send(std::uint64_t step, std::uint64_t end, std::uint64_t) const {
    if (first_round() == last_round()) return std::nullopt;
    const std::uint64_t round = step % rounds();
    if (round < first_round()) return before(step + first_round() - round, end);
    if (round < last_round()) return before(step, end);
    return before(step + rounds() - round + first_round(), end);
  }
  Pace pace() const {
    if (first_round() == last_round()) return {.stride = rounds(), .lead = 0, .lag = 0};
    return {.stride = rounds(), .lead = first_round(), .lag = last_round() - 1};
  }
  std::uint64_t minimum_slots() const { return 1; }

 private:
  std::uint64_t rounds() const { return std::max(depth_of(members_), std::uint64_t{1}); }
  /// The first round in which this member sends. It is the round after the one in which this member
  /// receives.
  std::uint64_t first_round() const { return static_cast<std::uint64_t>(std::bit_width(rank_)); }
  /// One more than the last round in which this member sends, or first_round() if it sends nothing.
  std::uint64_t last_round() const { return std::max(first_round(), depth_of(members_ - rank_)); }
  Rank parent() const { return Rank{rank_ - std::bit_floor(rank_)}; }

  std::uint32_t rank_;
  std::uint32_t members_;
};

static_assert(Plan<BinomialTree>);

}  // namespace rdmc::relay
