// What survivors of a group do about the blocks that some of them lack: which of them sends what to whom,
// round by round, each round an ordinary message with one source. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/block_map.hpp"

namespace rdmc::relay {

struct Holder {
  BlockMap held;
  bool lacks = false;  ///< what it does not hold it wants
};

struct Round {
  std::size_t source = 0;              ///< index of a holder
  BlockMap blocks;                     ///< that somebody lacks and the source holds
  std::vector<std::size_t> receivers;  ///< who lacks some of them, ascending
};

/// The blocks that nobody holds and somebody lacks.
BlockMap lost_blocks(std::span<const Holder> holders);

/// Of those who hold blocks that somebody lacks the one with most of them is the source, of equals the first;
/// what it does not hold is the matter of later rounds. No blocks when nobody lacks what somebody holds. All
/// maps are of the same number of blocks, and there is a holder.
Round next_round(std::span<const Holder> holders);

/// Rounds until nobody lacks what anybody holds. They may all run at the same time: each source has its
/// blocks from the beginning. No block is in two of them.
std::vector<Round> plan_rounds(std::vector<Holder> holders);

}  // namespace rdmc::relay
