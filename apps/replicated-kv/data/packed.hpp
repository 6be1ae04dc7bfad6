// Strings of bytes, one after the other, in one block of memory. Small collections and the parts of lists are
// such blocks: an element costs two bytes more than its own, and no memory block. Looking for an element
// takes a time in proportion to the size of the block. So blocks must be small.
//
// An element is named by its offset in the block. Offsets become invalid when elements before them change.
// The owner must call clear() before the end. One thread uses it.
//
//   element := size, bytes, size again with its bytes reversed, so that one can go backwards
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "apps/replicated-kv/data/small_memory.hpp"

namespace rdmc::kv {

class Packed {
 public:
  Packed() = default;
  Packed(Packed&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        count_(std::exchange(other.count_, 0)) {}
  /// The packed strings must be empty.
  Packed& operator=(Packed&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(bytes_, other.bytes_);
    std::swap(count_, other.count_);
    return *this;
  }

  std::size_t count() const { return count_; }
  bool is_empty() const { return count_ == 0; }
  /// The bytes that the elements take.
  std::size_t bytes() const { return bytes_; }
  /// The bytes that an element of this size takes.
  static std::size_t bytes_for(std::size_t size);

  // Offsets go from 0 to end(), which is that of no element.
  std::size_t end() const { return bytes_; }
  std::size_t next(std::size_t offset) const;
  std::size_t previous(std::size_t offset) const;
  /// The offset of an element from 0 to count(). It takes a time in proportion to the distance from an end.
  std::size_t offset_of(std::size_t index) const;
  /// The element. It is valid until the next change.
  std::string_view at(std::size_t offset) const;

  /// Inserts before the element at `offset`. `bytes` must not be a part of this object, also below.
  void insert(SmallMemory& memory, std::size_t offset, std::string_view bytes);
  void append(SmallMemory& memory, std::string_view bytes) { insert(memory, end(), bytes); }
  void replace(SmallMemory& memory, std::size_t offset, std::string_view bytes);
  /// Removes `count` elements.
  void erase(SmallMemory& memory, std::size_t offset, std::size_t count = 1);
  void clear(SmallMemory& memory);
  Packed copy(SmallMemory& memory) const;

 private:
  struct Block {
    std::uint32_t capacity;
    char bytes[1];
  };
  static constexpr std::size_t kHeadBytes = offsetof(Block, bytes);

  void resize(SmallMemory& memory, std::size_t bytes);
  /// Makes room for `inserted` bytes in place of `erased` bytes. Returns the room.
  char* splice(SmallMemory& memory, std::size_t offset, std::size_t erased, std::size_t inserted);

  Block* block_ = nullptr;
  std::uint32_t bytes_ = 0, count_ = 0;
};

}  // namespace rdmc::kv
