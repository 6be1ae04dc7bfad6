// A string of bytes of 16 bytes of memory. Up to 12 bytes are in the object itself. A longer string has a
// block of SmallMemory, whose first word names the memory. So the object can free it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "apps/replicated-kv/data/small_memory.hpp"

namespace rdmc::kv {

class Text {
 public:
  static constexpr std::size_t kInlineBytes = 12;

  Text() = default;
  Text(SmallMemory& memory, std::string_view bytes) { assign(memory, bytes); }
  ~Text() { release(); }
  Text(Text&& other) noexcept { take(other); }
  Text& operator=(Text&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }

  std::size_t size() const { return size_; }
  const char* data() const { return is_inline() ? inline_ : block().bytes; }
  char* data() { return is_inline() ? inline_ : block().bytes; }
  operator std::string_view() const { return {data(), size_}; }  // NOLINT: a text is a string of bytes.

  /// `bytes` must not be a part of this text.
  void assign(SmallMemory& memory, std::string_view bytes);
  /// Changes the size. New bytes are zero. Repeated growth costs a constant time per byte.
  void resize(SmallMemory& memory, std::size_t size);
  void append(SmallMemory& memory, std::string_view bytes);

 private:
  struct Block {
    SmallMemory* memory;
    char bytes[1];
  };
  static constexpr std::size_t kHeadBytes = offsetof(Block, bytes);

  bool is_inline() const { return size_ <= kInlineBytes; }
  Block& block() const { return *heap_.block; }
  static Block* allocate(SmallMemory& memory, std::size_t capacity);
  void release() {
    if (!is_inline()) {
      heap_.block->memory->subtract(kHeadBytes + size_);
      heap_.block->memory->free(heap_.block, kHeadBytes + heap_.capacity);
    }
    size_ = 0;
  }
  void take(Text& other) {
    std::memcpy(static_cast<void*>(this), static_cast<const void*>(&other), sizeof(Text));
    other.size_ = 0;
  }

  struct Heap {
    std::uint32_t capacity;
    Block* block;
  } __attribute__((packed, aligned(4)));

  std::uint32_t size_ = 0;
  union {
    char inline_[kInlineBytes];
    Heap heap_;
  };
};
static_assert(sizeof(Text) == 16);

}  // namespace rdmc::kv
