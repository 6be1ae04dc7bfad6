// What every algorithm's plan is made of: the transfers of a step, the pace at which blocks leave, and the
// functions that Schedule asks of each. Plain values; any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/types.hpp"

namespace rdmc::relay {

/// With both at their most, the steps of the slowest algorithm still fit 64 bits.
inline constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 43;
inline constexpr std::uint32_t kMaxMembers = std::uint32_t{1} << 20;

/// One block on its way: to `peer` when it is a send, from `peer` when it is a receive.
struct Transfer {
  Rank peer{};
  std::uint64_t block = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// What one member does in one step: at most one send and one receive.
struct StepTransfers {
  std::optional<Transfer> send;
  std::optional<Transfer> receive;
  friend bool operator==(const StepTransfers&, const StepTransfers&) = default;
};

/// When one member sends a block: block b, unless it is the message's last, only in steps b x stride + lead
/// to b x stride + lag; and nobody sends or receives block b before step b x stride.
struct Pace {
  std::uint64_t stride = 1;
  std::uint64_t lead = 0;
  std::uint64_t lag = 0;
};

/// ceil(log2 members): how many steps it takes until everybody can hold a block.
constexpr std::uint64_t depth_of(std::uint32_t members) {
  return static_cast<std::uint64_t>(std::bit_width(members - 1));
}

/// An algorithm's plan for one member of a group. `blocks` is a message's block count, 1 … kMaxBlocks.
template <typename P>
concept Plan = requires(const P plan, std::uint64_t step, std::uint64_t end, std::uint64_t blocks,
                        Rank rank) {
  { plan.of(rank) } -> std::same_as<P>;  // another member's
  { plan.steps(blocks) } -> std::same_as<std::uint64_t>;
  { plan.at(step, blocks) } -> std::same_as<StepTransfers>;
  { plan.first_receive(blocks) } -> std::same_as<std::optional<Transfer>>;
  { plan.sources() } -> std::same_as<std::vector<Rank>>;  // each once, in any order
  { plan.destinations() } -> std::same_as<std::vector<Rank>>;
  { plan.next_receive_from(rank, step, blocks) } -> std::same_as<std::optional<std::uint64_t>>;
  { plan.next_send(step, end, blocks) } -> std::same_as<std::optional<std::uint64_t>>;  // in [step, end)
  { plan.pace() } -> std::same_as<Pace>;
  { plan.minimum_slots() } -> std::same_as<std::uint64_t>;
};

/// The first of the steps from `step` to `end` (exclusive) of which `wanted` is true.
template <typename Wanted>
std::optional<std::uint64_t> first_step(std::uint64_t step, std::uint64_t end, Wanted wanted) {
  for (; step < end; ++step) {
    if (wanted(step)) return step;
  }
  return std::nullopt;
}

/// The first number >= `from` that leaves `remainder` when divided by `stride`.
constexpr std::uint64_t next_congruent(std::uint64_t from, std::uint64_t remainder, std::uint64_t stride) {
  return from + (remainder + stride - from % stride) % stride;
}

/// A step unless it is beyond the last.
constexpr std::optional<std::uint64_t> before(std::uint64_t step, std::uint64_t end) {
  if (step < end) return step;
  return std::nullopt;
}

inline void sort_and_unite(std::vector<Rank>& ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
}

}  // namespace rdmc::relay
