// Page-aligned anonymous memory for buffers: what messages, windows and rings are made of. An arena owns its
// mapping and gives it back when destroyed; the bytes are zero and present (touched) when `make` returns, so
// that no page fault falls into a transfer. Any thread may make one; the memory has no thread of its own.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "dataplane/base/error.hpp"

namespace rdmc::memory {

inline constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t round_up_to_page(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

class Arena {
 public:
  /// At least `bytes` bytes (rounded up to whole pages; 0 gives an empty arena). Errors: resource_limit.
  static Result<Arena> make(std::size_t bytes);

  Arena() = default;
  Arena(Arena&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Arena();

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  explicit Arena(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace rdmc::memory
