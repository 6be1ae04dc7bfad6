// The common parts of all algorithms' plans: the transfers of a step, the pace at which blocks leave, and
// the functions that Schedule calls. Plain values that any thread may use.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/types.hpp"

namespace rdmc::relay {

/// Even with the maximum of blocks and of members, the number of steps of the slowest algorithm fits into 64
/// bits.
inline constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 43;
inline constexpr std::uint32_t kMaxMembers = std::uint32_t{1} << 20;

/// The transfer of one block: to `peer` if it is a send, or from `peer` if it is a receive.
struct Transfer {
  Rank peer{};
  std::uint64_t block = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// The transfers of one member in one step: at most one send and one receive.
struct StepTransfers {
  std::optional<Transfer> send;
  std::optional<Transfer> receive;
  friend bool operator==(const StepTransfers&, const StepTransfers&) = default;
};

/// The steps in which one member sends a block. Except for the last block of the message, it sends block b
/// only in the steps from b x stride + lead to b x stride + lag. No member sends or receives block b before
/// step b x stride.
struct Pace {
  std::uint64_t stride = 1;
  std::uint64_t lead = 0;
  std::uint64_t lag = 0;
};

/// ceil(log2 members): the number of steps until all members can hold a block.
constexpr std::uint64_t depth_of(std::uint32_t members) {
  return static_cast<std::uint64_t>(std::bit_width(members - 1));
}

/// The number of blocks of a message. An empty message has one block without bytes. Precondition: block_bytes
/// > 0.
constexpr std::uint64_t block_count(std::uint64_t bytes, std::uint64_t block_bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / block_bytes + 1;
}

/// The bound: the least number of steps in which any plan can send this number of blocks to all members
/// (Bar-Noy and Kipnis 1994). Precondition: blocks >= 1.
constexpr std::uint64_t least_steps(std::uint32_t members, std::uint64_t blocks) {
  return members == 1 ? 0 : blocks - 1 + depth_of(members);
}

/// An algorithm's plan for one member of a group. `blocks` is a message's block count, from 1 to kMaxBlocks.
template <typename P>
concept Plan = requires(const P plan, std::uint64_t step, std::uint64_t end, std::uint64_t blocks,
                        Rank rank) {
  { plan.of(rank) } -> std::same_as<P>;  // the plan of another member
  { plan.steps(blocks) } -> std::same_as<std::uint64_t>;
  { plan.at(step, blocks) } -> std::same_as<StepTransfers>;
  { plan.first_receive(blocks) } -> std::same_as<std::optional<Transfer>>;
  { plan.sources() } -> std::same_as<std::vector<Rank>>;  // each rank once, in any order
  { plan.destinations() } -> std::same_as<std::vector<Rank>>;
  { plan.next_receive_from(rank, step, blocks) } -> std::same_as<std::optional<std::uint64_t>>;
  { plan.next_send(step, end, blocks) } -> std::same_as<std::optional<std::uint64_t>>;  // in [step, end)
  { plan.pace() } -> std::same_as<Pace>;
  { plan.minimum_slots() } -> std::same_as<std::uint64_t>;
};

/// Returns the first step in [step, end) for which `wanted` is true.
template <typename Wanted>
std::optional<std::uint64_t> first_step(std::uint64_t step, std::uint64_t end, Wanted wanted) {
  for (; step < end; ++step) {
    if (wanted(step)) return step;
  }
  return std::nullopt;
}

/// Returns the first number >= `from` that leaves `remainder` when it is divided by `stride`.
constexpr std::uint64_t next_congruent(std::uint64_t from, std::uint64_t remainder, std::uint64_t stride) {
  return from + (remainder + stride - from % stride) % stride;
}

/// Returns `step` if it is less than `end`, and nullopt otherwise.
constexpr std::optional<std::uint64_t> before(std::uint64_t step, std::uint64_t end) {
  if (step < end) return step;
  return std::nullopt;
}

inline void sort_and_unite(std::vector<Rank>& ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
}

}  // namespace rdmc::relay
