// Large messages without copies. The receiver grants slots of its memory, the sender writes its own memory
// straight into them, and the application reads the bytes in the slots. A slot belongs to the peer while it
// is granted. Then it belongs to the reader of the chunk that arrived in it, until the reader gives it back.
// No I/O. The caller must hold the sockets' lock, also when it destroys the last owner of a slot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/base/types.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/socket/records.hpp"

namespace rdmc::sockets {

/// The memory that a receiver keeps for the large messages of one trunk. It is made when one of the trunk's
/// streams first asks for slots.
class SlotMemory {
 public:
  static constexpr std::size_t kSlotBytes = 1 << 20;
  static constexpr std::uint32_t kSlots = 16;
  /// The most slots of one stream. The sends of a stream that gets no slots are copied into records.
  static constexpr std::uint32_t kSlotsPerStream = 8;

  /// `arena` must have space for kSlots slots. Peers reach the arena with the remote key `key`, from the
  /// remote address `address` on.
  SlotMemory(memory::Arena arena, RemoteKey key, std::uint64_t address);

  std::optional<std::uint32_t> take();
  void give_back(std::uint32_t slot) { free_.push_back(slot); }
  std::span<std::byte> bytes(std::uint32_t slot) const {
    return arena_.bytes().subspan(slot * kSlotBytes, kSlotBytes);
  }
  Grant grant(std::uint32_t slot) const { return {slot, value_of(key_), address_ + slot * kSlotBytes}; }

 private:
  memory::Arena arena_;
  RemoteKey key_;
  std::uint64_t address_;
  std::vector<std::uint32_t> free_;
};

/// A slot that returns to its SlotMemory when this object is destroyed. The stream keeps this object while
/// the slot is granted to the peer. Then the chunk that has arrived in the slot keeps it until the chunk was
/// read.
class OwnedSlot {
 public:
  OwnedSlot(std::shared_ptr<SlotMemory> memory, std::uint32_t slot)
      : memory_(std::move(memory)), slot_(slot) {}
  ~OwnedSlot() {
    if (memory_ != nullptr) memory_->give_back(slot_);
  }
  OwnedSlot(OwnedSlot&& other) noexcept = default;
  OwnedSlot& operator=(OwnedSlot&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(slot_, other.slot_);
    return *this;
  }

  std::uint32_t number() const { return slot_; }
  std::span<std::byte> bytes() const { return memory_->bytes(slot_); }
  Grant grant() const { return memory_->grant(slot_); }

 private:
  std::shared_ptr<SlotMemory> memory_;
  std::uint32_t slot_;
};

/// Memory for the copies that send() makes, while these copies are in flight to slots. Memory from take()
/// returns to the pool by itself. The pool of a trunk keeps up to kKept free pieces for the next sends. So a
/// connection that has sent everything keeps no memory.
class CopyPool : public std::enable_shared_from_this<CopyPool> {
 public:
  static constexpr std::size_t kBytes = 256 * 1024, kKept = 6;

  CopyPool() { free_.reserve(kKept); }
  std::shared_ptr<std::byte[]> take();

 private:
  std::vector<std::unique_ptr<std::byte[]>> free_;
};

/// On the sender's side: a part of a large send, and the owner that keeps the memory of this part.
struct Chunk {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::uint64_t number = 0;   ///< if this is the last part of a send, the number of that send; otherwise 0
  std::byte* copy = nullptr;  ///< the beginning of `bytes` if they are a copy that send() has made

  /// How many more bytes can be appended to the copy.
  std::size_t room() const { return copy != nullptr ? CopyPool::kBytes - bytes.size() : 0; }
};

/// A chunk and the slot that it is written into.
struct ChunkWrite {
  Chunk chunk;
  Grant grant;
};

/// A chunk that has arrived. Its bytes are read in the slot.
struct ArrivedChunk {
  std::optional<OwnedSlot> slot;  ///< empty if the bytes were copied
  std::vector<std::byte> copied;
  std::span<std::byte> bytes;  ///< the bytes that are still to be read
  std::uint64_t position = 0;  ///< how many bytes of data records come before this chunk in the stream
};

}  // namespace rdmc::sockets
