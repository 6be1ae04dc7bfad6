// The memory of one application in a fuzz target. It always knows which of its bytes a peer may change, and
// which bytes may leave. It has a copy of all other bytes, so that check() finds every change that was not
// granted. The sanitizers check all accesses outside of this memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "tests/fuzz/input.hpp"

namespace rdmc::fuzz {

/// Slots of equal size with guard bytes between them. A slot has one use at a time: it is a region, a
/// receive, the target of a READ, or the source of sends.
class GuardedMemory {
 public:
  static constexpr std::size_t kSlots = 16, kSlotBytes = 1024, kGuardBytes = 64;

  GuardedMemory() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 + i / 256);
    copy_ = bytes_;
  }

  /// Returns the first `bytes` bytes of a slot.
  std::span<std::byte> slot(std::size_t index, std::size_t bytes = kSlotBytes) {
    return std::span(bytes_).subspan(at(index), bytes);
  }
  bool is_free(std::size_t index) const { return !used_[index]; }
  /// Returns the index of a free slot, or kSlots if there is none.
  std::size_t find_free() const {
    return static_cast<std::size_t>(std::ranges::find(used_, false) - used_.begin());
  }
  /// From now on, the first `writable` bytes of the slot may be changed, and its first `readable` bytes may
  /// leave.
  void grant(std::size_t index, std::size_t writable, std::size_t readable) {
    used_[index] = true;
    writable_[index] = writable;
    readable_[index] = readable;
  }
  /// From now on, no byte of the slot may be changed or leave.
  void revoke(std::size_t index) {
    std::ranges::copy(slot(index), copy_.begin() + static_cast<std::ptrdiff_t>(at(index)));
    used_[index] = false;
    writable_[index] = readable_[index] = 0;
  }

  bool is_writable(std::span<const std::byte> bytes) const { return lies_within(bytes, writable_); }
  bool is_readable(std::span<const std::byte> bytes) const { return lies_within(bytes, readable_); }
  /// Returns true if any of `bytes` belongs to this memory.
  bool contains(std::span<const std::byte> bytes) const {
    return bytes.data() < bytes_.data() + bytes_.size() && bytes_.data() < bytes.data() + bytes.size();
  }

  void check() const {
    std::size_t from = 0;
    for (std::size_t i = 0; i < kSlots; ++i) {
      check_same(from, at(i));
      from = at(i) + writable_[i];
    }
    check_same(from, bytes_.size());
  }

 private:
  static constexpr std::size_t at(std::size_t index) {
    return kGuardBytes + index * (kSlotBytes + kGuardBytes);
  }
  using Extents = std::array<std::size_t, kSlots>;
  bool lies_within(std::span<const std::byte> bytes, const Extents& extents) const {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const std::byte* const begin = bytes_.data() + at(i);
      if (bytes.data() >= begin && bytes.data() + bytes.size() <= begin + extents[i]) return true;
    }
    return false;
  }
  void check_same(std::size_t from, std::size_t to) const {
    // Compares the whole range at once. An instrumented loop over the bytes would take most of the fuzzer's
    // time.
    require(std::memcmp(&bytes_[from], &copy_[from], to - from) == 0);
  }

  static constexpr std::size_t kBytes = kGuardBytes + kSlots * (kSlotBytes + kGuardBytes);
  alignas(64) std::array<std::byte, kBytes> bytes_;
  std::array<std::byte, kBytes> copy_;
  std::array<bool, kSlots> used_{};
  Extents writable_{}, readable_{};
};

}  // namespace rdmc::fuzz
