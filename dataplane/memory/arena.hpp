// Page-aligned memory for the buffers of messages, windows and rings. It is private memory of this process,
// or shared pages that peers on this host can read. An arena owns its mapping and unmaps it when it is
// destroyed. The bytes are zero at first. By default, all pages are touched when the arena is made, so that
// no page fault happens during a transfer. Any thread may make an arena. The memory does not belong to a
// thread.
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

/// The time at which pages are backed with memory. `when_used` is for arenas that perhaps no transfer uses,
/// and for arenas whose first use must not wait for all pages. If there is no memory then, the kernel kills
/// the process.
enum class Touch : std::uint8_t { now, when_used };

class Arena {
 public:
  /// Makes an arena of at least `bytes` bytes, rounded up to whole pages. 0 gives an empty arena. Errors:
  /// resource_limit.
  static Result<Arena> make(std::size_t bytes, Touch touch = Touch::now);
  /// Makes an arena of pages that other processes may map and read, but never write. The errors are those of
  /// SharedPages::make.
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
  /// The shared pages of this arena, or null if the memory is private. A weak reference to the pages expires
  /// when the arena is destroyed.
  const std::shared_ptr<const SharedPages>& shared_pages() const noexcept { return shared_; }

 private:
  explicit Arena(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
  std::shared_ptr<const SharedPages> shared_;
};

}  // namespace rdmc::memory
