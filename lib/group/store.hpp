// The bytes of one message as one member holds them: `slots()` blocks in a row, block b in slot b mod
// slots(). A memory message has a slot for each block; a file has a window of a few, filled by a reader at
// the root and emptied by a writer at a receiver, so that memory does not grow with the file. Every function
// is called on the engine thread; a store with an I/O thread of its own hides that behind its queues.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::group {

class Store {
 public:
  virtual ~Store() = default;

  /// slots() x block size bytes, page aligned, at one address for the store's whole life.
  virtual std::span<std::byte> memory() = 0;
  virtual std::uint64_t slots() const = 0;

  /// Root: blocks [0, result) have been read in. Asked on every turn. An error ends the message on every
  /// member.
  virtual Result<std::uint64_t> available() = 0;

  /// Receiver: `block` (of `bytes` bytes) has landed in its slot; the store takes it from there. Blocks may
  /// come in any order within the window.
  virtual void arrived(std::uint64_t block, std::uint32_t bytes) = 0;
  /// A straggler's, instead: `block` will not come in this message. Its slot is consumed like the others.
  virtual void omitted(std::uint64_t) { assert(!"a store of a straggler is told what it lacks"); }
  /// Receiver: appends the blocks that the store needs in memory no longer since it was last asked. An error
  /// (disk full) ends this member's part.
  virtual Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) = 0;

  /// Blocks below `limit` have been relayed and consumed: their slots may be filled anew (root), are granted
  /// anew (receiver).
  virtual void released(std::uint64_t limit) = 0;
};

}  // namespace rdmc::group
