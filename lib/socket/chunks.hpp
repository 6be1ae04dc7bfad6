// Large messages without copies: the receiver grants slots of its memory, the sender's own memory is written
// straight into them, and the application reads where they lie. A slot belongs to the peer while it is
// granted, then to whoever was given what arrived in it, until they give it back. Pure; under the sockets'
// lock, which the last owner of a slot holds as well.
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

/// What a receiver keeps for one trunk's large messages, once one of its streams has asked for it.
class SlotMemory {
 public:
  static constexpr std::size_t kSlotBytes = 1 << 20;
  static constexpr std::uint32_t kSlots = 16;
  /// Of one stream at most; a stream that gets none is copied.
  static constexpr std::uint32_t kSlotsPerStream = 8;

  /// `arena` of kSlots slots, which peers reach by `key` from `address` on.
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

/// A slot that the peer may not write now: what has arrived in it is read. Goes back when it is destroyed.
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

/// Memory for copies of what copying sends were given, while they are under way to slots. A trunk keeps a few
/// for the next, a connection that has sent all has none. What take() has given comes back of itself.
class CopyPool : public std::enable_shared_from_this<CopyPool> {
 public:
  static constexpr std::size_t kBytes = 256 * 1024, kKept = 6;

  CopyPool() { free_.reserve(kKept); }
  std::shared_ptr<std::byte[]> take();

 private:
  std::vector<std::unique_ptr<std::byte[]>> free_;
};

/// Of the sender's: a piece of a message, and what keeps its memory.
struct Chunk {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::uint64_t number = 0;   ///< of the send that it is the last piece of; 0: not the last
  std::byte* copy = nullptr;  ///< where `bytes` begin, if they are a copy of ours

  /// For more bytes, behind these.
  std::size_t room() const { return copy != nullptr ? CopyPool::kBytes - bytes.size() : 0; }
};

/// A chunk on its way.
struct ChunkWrite {
  Chunk chunk;
  Grant grant;
};

/// What has come and is to be read where it lies.
struct ArrivedChunk {
  std::optional<OwnedSlot> slot;  ///< none: it was copied
  std::vector<std::byte> copied;
  std::span<std::byte> bytes;  ///< that are still to be read
  std::uint64_t position = 0;  ///< how many bytes of records come before it
};

}  // namespace rdmc::sockets
