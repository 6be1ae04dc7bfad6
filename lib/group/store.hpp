// A store has the bytes of one message at one member, in `slots()` consecutive slots. Block b is in slot b
// mod slots(). A message in memory has a slot for each block. A file has only a few slots, so that the memory
// does not grow with the file. At the root, a reader fills the slots from the file. At a receiver, a writer
// writes them to the file. All functions are called on the fabric thread. If a store has an I/O thread of its
// own, these functions must exchange data with that thread through queues.
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

  /// Returns the memory of the slots: slots() x block size bytes, page aligned. The address must not change
  /// during the life of the store.
  virtual std::span<std::byte> memory() = 0;
  virtual std::uint64_t slots() const = 0;

  /// Root: returns the number below which all blocks have been read into memory. Called in every turn. An
  /// error ends the message at every member.
  virtual Result<std::uint64_t> available() = 0;

  /// Receiver: called when `block` of `bytes` bytes has arrived in its slot. The store must process it.
  /// Blocks may arrive in any order within the window.
  virtual void arrived(std::uint64_t block, std::uint32_t bytes) = 0;
  /// Straggler: called instead of arrived() for a block that is omitted in this message. The store must
  /// report it by poll_consumed(), like any other block.
  virtual void omitted(std::uint64_t) { assert(!"a store of a straggler is told what it lacks"); }
  /// Receiver: appends the blocks that have been consumed since the last call. An error, for example a full
  /// disk, ends this member's part.
  virtual Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) = 0;

  /// Called when the blocks below `limit` have been relayed and consumed. At the root their slots may be
  /// filled again. At a receiver their slots are granted again.
  virtual void released(std::uint64_t limit) = 0;
};

}  // namespace rdmc::group
