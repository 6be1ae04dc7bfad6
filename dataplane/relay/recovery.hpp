// Plans the recovery of blocks that some survivors of a group lack: which survivor sends which blocks to
// which other survivors. The plan has rounds. Each round is an ordinary message from one source. The
// functions have no side effects.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/block_map.hpp"

namespace rdmc::relay {

struct Holder {
  BlockMap held;
  bool lacks = false;  ///< the holder needs the blocks that it does not hold
};

struct Round {
  std::size_t source = 0;              ///< the index of a holder
  BlockMap blocks;                     ///< the blocks that the source holds and that a receiver lacks
  std::vector<std::size_t> receivers;  ///< the holders that lack some of these blocks, in ascending order
};

/// The blocks that a holder lacks and that no holder holds.
BlockMap lost_blocks(std::span<const Holder> holders);

/// Plans one round. For each holder, count its blocks that some holder lacks. The source is the holder with
/// the largest number, or the first of several such holders. Later rounds send the lacking blocks that this
/// source does not hold. The round has no blocks if nothing can be recovered. Preconditions: all maps have
/// the same number of blocks, and there is at least one holder.
Round next_round(std::span<const Holder> holders);

/// Plans rounds until no holder lacks a block that another holder has. All rounds may run at the same time,
/// because each source holds the blocks of its round from the beginning. No block is in two rounds.
std::vector<Round> plan_rounds(std::vector<Holder> holders);

}  // namespace rdmc::relay
