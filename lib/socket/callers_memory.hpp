// The memory that an application gives to a call. A page of it may not be there: it was swapped out, or it
// belongs to a file on a slow server, or userfaultfd withholds it. Then the call waits for the page, and it
// must not hold the sockets' lock meanwhile. So a few bytes are copied through a bounce buffer on the call's
// own stack, before the lock is taken or after it was let go of. For more bytes the call lets go of the lock,
// touches the pages, and takes the lock again. One call's thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

namespace rdmc::sockets {

/// A copy of so many bytes takes about as long as letting go of a lock that nobody else wants.
inline constexpr std::size_t kMostBounced = 1024;

/// Has the kernel bring the pages of `bytes` that are not there, to be read.
inline void touch(std::span<const std::byte> bytes) {
  constexpr std::size_t kPage = 4096;
  for (std::size_t at = 0; at < bytes.size(); at += kPage)
    (void)*static_cast<const volatile std::byte*>(&bytes[at]);
  if (!bytes.empty()) (void)*static_cast<const volatile std::byte*>(&bytes.back());
}

/// The same, to be written. No byte changes, whoever else writes there.
inline void touch_for_writing(std::span<std::byte> bytes) {
  constexpr std::size_t kPage = 4096;
  const auto touch_one = [](std::byte& byte) {
    const std::atomic_ref shared(byte);
    std::byte value = shared.load(std::memory_order_relaxed);
    // The processor writes it although it is the same.
    shared.compare_exchange_strong(value, value, std::memory_order_relaxed);
  };
  for (std::size_t at = 0; at < bytes.size(); at += kPage) touch_one(bytes[at]);
  if (!bytes.empty()) touch_one(bytes.back());
}

/// What a call sends: a copy of it if it is little. Made before the lock is taken.
class BytesToSend {
 public:
  explicit BytesToSend(std::span<const std::byte> callers) : bytes_(callers) {
    if (callers.data() == nullptr || callers.size() > kMostBounced) return;
    std::memcpy(bounce_.data(), callers.data(), callers.size());
    bytes_ = std::span(bounce_).first(callers.size());
    is_copy_ = true;
  }
  BytesToSend(const BytesToSend&) = delete;
  BytesToSend& operator=(const BytesToSend&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  bool is_copy() const { return is_copy_; }

 private:
  std::span<const std::byte> bytes_;
  bool is_copy_ = false;
  std::array<std::byte, kMostBounced> bounce_;
};

/// What a call has received and the caller does not have yet. Outlives the lock, and is then copied.
class Bounce {
 public:
  Bounce() {}
  ~Bounce() { deliver(); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;

  bool is_empty() const { return count_ == 0; }
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
  std::byte* to_ = nullptr;
  std::size_t count_ = 0;
  std::array<std::byte, kMostBounced> bytes_;
};

}  // namespace rdmc::sockets
