// Limits the number of bytes that wait in a host's own queues. The limit is the number of bytes that leave
// the host within kHold at the measured rate. So the queue of a slow link stays short, and the queue of a
// fast link does not become empty between two calls of look(). The kernel's byte queue limits (dql) do the
// same for the ring buffer of a NIC. The limit matters because a queue in front of the first link delays
// every flow of the host, and congestion control cannot use that delay. The class does no I/O and reads no
// clock. It is used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dataplane/base/egress.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::port {

class EgressLimit {
 public:
  /// The time in which a full queue drains at the measured rate. A sender that was refused must call look()
  /// again in less than half of this time.
  static constexpr Duration kHold = microseconds(500);
  static constexpr std::uint64_t kLeastBytes = 64 << 10, kMostBytes = 4 << 20;
  /// This limit is used if the rate is not known. It is also used if, at the measured rate, this number of
  /// bytes leaves in a time between kHold and twice kHold. On a slower link, the limit is the number of bytes
  /// that leave in twice kHold, but at least kLeastBytes. The value was found by measurements with eight
  /// hosts on 1 Gb/s links. With half of this limit, the hosts were as fast without packet loss, but 1 %
  /// slower with 1 % packet loss. With twice this limit, or without a limit, they were 2 to 4 % slower
  /// without packet loss. Slow links need a lower limit: at 100 Mb/s, this number of bytes would need 10 ms
  /// to leave, and a relay would forward late.
  static constexpr std::uint64_t kUsualBytes = 128 << 10;
  /// The maximum number of bytes that are added between two calls of look(). Only the last call of added()
  /// may exceed it.
  static constexpr std::uint64_t kBytesPerLook = 32 << 10;
  /// The longest wait that egress() returns. A longer wait would not be a reliable estimate.
  static constexpr Duration kMostWait = milliseconds(50);
  /// The shortest time between two calls of look() from which the rate is computed. A shorter time depends
  /// more on the scheduler than on the link.
  static constexpr Duration kLeastSpan = microseconds(50);

  /// Returns true if more bytes may be added before the next call of look().
  bool admits_unseen() const { return waiting_ + added_ <= kLeastBytes && added_ < kBytesPerLook; }
  /// Reports that `bytes` bytes were added to the queue.
  void added(std::uint64_t bytes) { added_ += bytes; }

  /// Reports that `waiting` bytes have not left the host at `now`. Returns true if more bytes may be added.
  /// If it returns false, the caller must add nothing before the next call of look().
  bool look(std::uint64_t waiting, Time now) {
    if (held_since_) {
      if (now - *held_since_ >= kLeastSpan) {
        learn({waiting_then_, 0}, waiting, now - *held_since_);
        held_since_.reset();
      }
    } else if (now - looked_at_ >= kLeastSpan) {
      learn({waiting_, added_}, waiting, now - looked_at_);
    }
    waiting_ = waiting;
    added_ = 0;
    looked_at_ = now;
    const bool full = waiting > bytes_;
    if (!full) held_since_.reset();
    if (full && !held_since_) {
      held_since_ = now;
      waiting_then_ = waiting;
    }
    return !full;
  }

  std::uint64_t bytes() const { return bytes_; }

  /// Returns how long a datagram that is added at `now` waits, and the rate of the link. Both are computed
  /// from the last call of look() and from the bytes that were added after it. The wait is kMostWait at most.
  /// Both are 0 until the rate is certain.
  Egress egress(Time now) const {
    if (!is_certain_) return {};
    const double per_ns = in_hold_ / static_cast<double>(kHold.ns);
    const double left = per_ns * static_cast<double>((now - looked_at_).ns);
    const double waiting = std::max(0.0, static_cast<double>(waiting_ + added_) - left);
    const double wait = std::min(waiting / per_ns, static_cast<double>(kMostWait.ns));
    return {.wait = Duration{static_cast<std::int64_t>(wait)},
            .bytes_per_second = static_cast<std::uint64_t>(per_ns * 1e9)};
  }

 private:
  struct Before {
    std::uint64_t waiting = 0, added = 0;
  };

  /// Computes the rate from two calls of look(). `before` has the bytes that waited at the first call and the
  /// bytes that were added after it; `waiting` has the bytes that waited at the second call. The sent bytes
  /// are the waiting bytes of the first call, plus the added bytes, minus the waiting bytes of the second
  /// call.
  /// - If at most the bytes that waited at the first call were sent, and some bytes wait at the second call,
  ///   the queue never became empty, and the rate is certain.
  /// - Otherwise, if nothing was added, the rate is a lower bound.
  /// - Otherwise nothing is known.
  /// The kernel reports the memory of the waiting datagrams, which is more than their bytes. This makes the
  /// result inexact if few bytes were sent. So a rate is certain only if at least half as many bytes were
  /// sent as were added.
  void learn(const Before& before, std::uint64_t waiting, Duration span) {
    if (before.waiting + before.added <= waiting) return;
    const std::uint64_t drained = before.waiting + before.added - waiting;
    const bool is_certain = waiting > 0 && drained <= before.waiting && drained >= before.added / 2;
    const double in_hold =
        static_cast<double>(drained) * static_cast<double>(kHold.ns) / static_cast<double>(span.ns);
    if (!is_certain && (before.added > 0 || in_hold < in_hold_)) return;
    const bool is_first = is_certain && !is_certain_;
    in_hold_ += (in_hold - in_hold_) / (is_first ? 1 : 8);
    is_certain_ = is_certain_ || is_certain;
    const double usual = std::min(2 * in_hold_, static_cast<double>(kUsualBytes));
    bytes_ = std::clamp(static_cast<std::uint64_t>(std::max(in_hold_, usual)), kLeastBytes, kMostBytes);
  }

  std::uint64_t bytes_ = kUsualBytes;
  double in_hold_ =
      0;  ///< The number of bytes that leave in kHold. Only a lower bound until is_certain_ is true.
  bool is_certain_ = false;
  std::uint64_t waiting_ = 0;  ///< The bytes that waited at the last call of look().
  std::uint64_t added_ = 0;    ///< The bytes that were added since the last call of look().
  Time looked_at_{};
  std::optional<Time> held_since_;
  std::uint64_t waiting_then_ = 0;
};

}  // namespace rdmc::port
