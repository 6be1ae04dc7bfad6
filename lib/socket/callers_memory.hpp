// The memory that an application gives to a call. A page of it may be absent: it was swapped out, or it
// belongs to a file on a slow server, or userfaultfd withholds it. Then the call waits for the page, and must
// not hold the sockets' lock while it waits. So a call touches the pages that it needs before it takes the
// lock. A receive call learns only under the lock how many bytes it will write. If the application's buffer
// is small, the call copies through a bounce buffer on its own stack, and copies from there to the
// application after it has released the lock. If the buffer is larger, the call touches the buffer's first
// page in advance. If the call then needs more pages, it releases the lock, touches them, and takes the lock
// again. Each object is used only by the thread of one call.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace rdmc::sockets {

/// Copying this number of bytes takes less time than touching a page for writing.
inline constexpr std::size_t kMostBounced = 256;

inline constexpr std::size_t kPageBytes = 4096;

/// Makes the kernel bring in the absent pages of `bytes`, for reading.
inline void touch(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes)
    (void)*static_cast<const volatile std::byte*>(&bytes[at]);
  if (!bytes.empty()) (void)*static_cast<const volatile std::byte*>(&bytes.back());
}

/// Makes the kernel bring in the absent pages of `bytes`, for writing. No byte changes, even if another
/// thread writes to `bytes` at the same time.
inline void touch_for_writing(std::span<std::byte> bytes) {
  const auto touch_one = [](std::byte& byte) {
    const std::atomic_ref shared(byte);
    std::byte value = shared.load(std::memory_order_relaxed);
    // The processor writes the byte although the value stays the same.
    shared.compare_exchange_strong(value, value, std::memory_order_relaxed);
  };
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) touch_one(bytes[at]);
  if (!bytes.empty()) touch_one(bytes.back());
}

/// A bounce buffer. It keeps bytes that a call has received but not yet copied to the caller. The destructor
/// copies the bytes to the caller's memory. So the object must be destroyed after the lock was released.
class Bounce {
 public:
  Bounce() {}
  /// Touches the first page of `out` if `out` is larger than kMostBounced. Must be called without the lock.
  explicit Bounce(std::span<std::byte> out) {
    if (out.data() == nullptr || out.size() <= kMostBounced) return;
    touch_for_writing(out.first(1));
    touched_ = out.first(
        std::min(out.size(), kPageBytes - reinterpret_cast<std::uintptr_t>(out.data()) % kPageBytes));
  }
  ~Bounce() { deliver(); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;

  bool is_empty() const { return count_ == 0; }
  /// Returns how many of the first bytes of `out` are in the page that the constructor touched. Only the
  /// first call returns a number other than 0, because the thread may sleep before a later call.
  std::size_t take_touched(std::span<const std::byte> out) {
    const auto touched = std::exchange(touched_, {});
    return out.data() == touched.data() ? std::min(touched.size(), out.size()) : 0;
  }
  /// Returns the memory to fill: at most `most` and at most kMostBounced bytes. Precondition: is_empty().
  std::span<std::byte> room(std::size_t most) {
    return std::span(bytes_).first(std::min(most, bytes_.size()));
  }
  /// Keeps the first `count` bytes of `room` for `to`. Does nothing if `room` is not memory of this buffer.
  void keep(std::span<const std::byte> room, std::span<std::byte> to, std::size_t count) {
    if (room.data() != bytes_.data()) return;
    to_ = to.data();
    count_ = std::min(count, room.size());
  }
  /// Copies the kept bytes to the caller's memory. Must be called without the lock.
  void deliver() {
    if (const std::size_t count = std::exchange(count_, 0); count != 0)
      std::memcpy(to_, bytes_.data(), count);
  }

 private:
  std::span<const std::byte> touched_;
  std::byte* to_ = nullptr;
  std::size_t count_ = 0;
  std::array<std::byte, kMostBounced> bytes_;
};

}  // namespace rdmc::sockets
