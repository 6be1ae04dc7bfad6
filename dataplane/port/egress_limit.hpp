// How much a host lets wait in its own queues before it holds back what it would add: as much as leaves in
// kHold at the rate at which the queue was seen to drain, so that a slow link's queue stays short and a fast
// one never runs dry between two looks. The kernel's byte queue limits (dql) do the same for a NIC's ring.
// A queue in front of the first link delays every flow of the host and tells congestion control nothing it
// could act on. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dataplane/base/egress.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::port {

class EgressLimit {
 public:
  /// What waits at the measured rate. Whoever is held back looks again sooner than half of it.
  static constexpr Duration kHold = microseconds(500);
  static constexpr std::uint64_t kLeastBytes = 64 << 10, kMostBytes = 4 << 20;
  /// Where the rate is not known, or so much leaves within twice kHold: 1 ms at 1 Gb/s. With half of it,
  /// eight hosts on 1 Gb/s links were as fast, but lost a hundredth more to 1 % loss; with twice as much, or
  /// no limit, they were two to four hundredths slower without loss. On 100 Mb/s it would be 10 ms, and a
  /// relay late.
  static constexpr std::uint64_t kUsualBytes = 128 << 10;
  /// Added between two looks, at most, beyond what one call adds.
  static constexpr std::uint64_t kBytesPerLook = 32 << 10;
  /// A longer wait is no estimate any more.
  static constexpr Duration kMostWait = milliseconds(50);
  /// Looks closer together than this tell more of the scheduler than of the link.
  static constexpr Duration kLeastSpan = microseconds(50);

  /// Whether more may be added without a look.
  bool admits_unseen() const { return waiting_ + added_ <= kLeastBytes && added_ < kBytesPerLook; }
  /// So many bytes were added to the queue.
  void added(std::uint64_t bytes) { added_ += bytes; }

  /// `waiting` bytes have not left the host at `now`: whether more may be added. After false, nothing is
  /// added before the next look.
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

  /// How long a datagram that is added at `now` waits, and the rate of the link. It follows from what the
  /// last look saw and from what was added since then. The wait is kMostWait at most. Both are 0 until the
  /// rate is certain.
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

  /// Learns from two looks: `before` is what the first saw and what was added after it, `waiting` what the
  /// second saw. If no more has left than waited at the first look, the queue did not run dry, and the rate
  /// is certain. If nothing was added, the link is at least so fast. Otherwise nothing is known. The kernel
  /// counts the memory that a datagram takes, and we count its bytes. So a rate is believed only if at least
  /// half as much has left as was added.
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
  double in_hold_ = 0;  ///< bytes that leave in kHold; at least, unless it
  bool is_certain_ = false;
  std::uint64_t waiting_ = 0;  ///< at the last look
  std::uint64_t added_ = 0;    ///< since then
  Time looked_at_{};
  std::optional<Time> held_since_;
  std::uint64_t waiting_then_ = 0;
};

}  // namespace rdmc::port
