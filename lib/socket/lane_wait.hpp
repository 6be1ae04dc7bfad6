// The classes by which a call waits until a lane has bytes to read or space to write.
#pragma once

#include <cstdint>
#include <utility>

#include "lib/socket/lane.hpp"

namespace rdmc::sockets {

/// The condition that a call waits for, in addition to a change of its socket: bytes in a lane, or space in a
/// lane.
enum class Wants : std::uint8_t { change, bytes, room };

/// The lane that one call waits for. The call first spins for a while until the lane changes, and then sleeps
/// on the lane's futex word.
class LaneWait {
 public:
  LaneWait(LaneMemory memory, Wants wants) : memory_(std::move(memory)), wants_(wants) {}
  bool has_news() const {
    return wants_ == Wants::bytes ? LaneReader::has_bytes(memory_) : LaneWriter::has_room(memory_);
  }
  Atomic<std::uint32_t>& word() const {
    return (wants_ == Wants::bytes ? memory_.head->reader : memory_.head->writer).asleep;
  }

 private:
  LaneMemory memory_;
  Wants wants_;
};

}  // namespace rdmc::sockets
