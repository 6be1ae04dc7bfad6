// Page-aligned memory for buffers: what messages, windows and rings are made of; this process's own, or pages
// that its peers on this host can read. An arena owns its mapping and gives it back when destroyed; the bytes
// are zero. Payload is present (touched) when it is made, so that no page fault falls into a transfer. Any
// thread may make one; the memory has no thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "dataplane/base/error.hpp"

namespace rdmc::memory {

inline constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t round_up_to_page(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

class SharedPages;

/// When pages get memory. What is made for each peer and may never be used gets it when it is used.
enum class Touch : std::uint8_t { now, when_used };

class Arena {
 public:
  /// At least `bytes` bytes (rounded up to whole pages; 0 gives an empty arena). Errors: resource_limit.
  static Result<Arena> make(std::size_t bytes, Touch touch = Touch::now);
  /// The same of pages that others may map and read, but never write. Errors: those of SharedPages::make.
  static Result<Arena> make_shared(std::size_t bytes, Touch touch = Touch::now);

  Arena() = default;
  Arena(Arena&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), shared_(std::move(other.shared_)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Arena();

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// The pages behind it; null: they are this process's own. A weak reference to them ends with the arena.
  const std::shared_ptr<const SharedPages>& shared_pages() const noexcept { return shared_; }

 private:
  explicit Arena(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
  std::shared_ptr<const SharedPages> shared_;
};

}  // namespace rdmc::memory
