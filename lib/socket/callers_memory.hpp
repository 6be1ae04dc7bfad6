// The memory that an application gives to a call. A page of it may not be there: it was swapped out, or it
// belongs to a file on a slow server, or userfaultfd withholds it. Then the call waits for the page, and it
// must not hold the sockets' lock meanwhile. So a call touches the pages that it will need before it takes
// the lock. Only under the lock can a receive learn how many bytes it will write. So into a buffer of a few
// bytes it copies through a bounce buffer on the call's own stack, which is emptied after the lock was let go
// of; if it needs more pages than the first one of a larger buffer, it lets go of the lock, touches them, and
// takes the lock again. One call's thread.
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

/// A copy of so many bytes takes less time than touching a page to be written.
inline constexpr std::size_t kMostBounced = 256;

inline constexpr std::size_t kPageBytes = 4096;

/// Has the kernel bring the pages of `bytes` that are not there, to be read.
inline void touch(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes)
    (void)*static_cast<const volatile std::byte*>(&bytes[at]);
  if (!bytes.empty()) (void)*static_cast<const volatile std::byte*>(&bytes.back());
}

/// The same, to be written. No byte changes, whoever else writes there.
inline void touch_for_writing(std::span<std::byte> bytes) {
  const auto touch_one = [](std::byte& byte) {
    const std::atomic_ref shared(byte);
    std::byte value = shared.load(std::memory_order_relaxed);
    // The processor writes it although it is the same.
    shared.compare_exchange_strong(value, value, std::memory_order_relaxed);
  };
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) touch_one(bytes[at]);
  if (!bytes.empty()) touch_one(bytes.back());
}

/// What a call has received and the caller does not have yet. Outlives the lock, and is then copied.
class Bounce {
 public:
  Bounce() {}
  /// Without the lock: touches the first page of what is received into, if that is too much to be bounced.
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
  /// How many of the first bytes of `out` lie in the page that was touched just now; asked once, since the
  /// call may sleep before it asks again.
  std::size_t take_touched(std::span<const std::byte> out) {
    const auto touched = std::exchange(touched_, {});
    return out.data() == touched.data() ? std::min(touched.size(), out.size()) : 0;
  }
  /// To be filled when it is empty, at most kMostBounced bytes.
  std::span<std::byte> room(std::size_t most) {
    return std::span(bytes_).first(std::min(most, bytes_.size()));
  }
  /// The first `count` bytes of `room`, if that is room of ours, are for `to`.
  void keep(std::span<const std::byte> room, std::span<std::byte> to, std::size_t count) {
    if (room.data() != bytes_.data()) return;
    to_ = to.data();
    count_ = std::min(count, room.size());
  }
  /// Without the lock.
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
