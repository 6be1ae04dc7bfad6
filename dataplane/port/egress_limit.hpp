// How much a host lets wait in its own queues before it holds back what it would add: as much as leaves in
// kHold at the rate at which the queue was seen to drain, so that a slow link's queue stays short and a fast
// one never runs dry between two looks. The kernel's byte queue limits (dql) do the same for a NIC's ring.
// A queue in front of the first link delays every flow of the host and tells congestion control nothing it
// could act on. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dataplane/base/types.hpp"

namespace rdmc::port {

class EgressLimit {
 public:
  /// What waits at the measured rate. Whoever is held back looks again sooner than half of it.
  static constexpr Duration kHold = microseconds(500);
  /// 1 ms at 1 Gb/s. With half of it, eight hosts on 1 Gb/s links were as fast, but lost two hundredths more
  /// to 1 % loss; with twice as much, or no limit, they were two to four hundredths slower without loss.
  static constexpr std::uint64_t kLeastBytes = 128 << 10, kMostBytes = 4 << 20;
  /// Looks closer together than this tell more of the scheduler than of the link.
  static constexpr Duration kLeastSpan = microseconds(50);

  /// Whether `bytes` more may have been added since the last look without a new one being due.
  bool admits_unseen(std::uint64_t bytes) const { return waiting_ + bytes <= kLeastBytes; }

  /// `waiting` bytes have not left the host at `now`: whether more may be added. After false, nothing is
  /// added before the next look.
  bool look(std::uint64_t waiting, Time now) {
    if (held_since_ && now - *held_since_ >= kLeastSpan) {
      learn(waiting, now - *held_since_);
      held_since_.reset();
    }
    waiting_ = waiting;
    const bool full = waiting > bytes_;
    if (!full) held_since_.reset();
    if (full && !held_since_) {
      held_since_ = now;
      waiting_then_ = waiting;
    }
    return !full;
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  void learn(std::uint64_t waiting, Duration span) {
    const auto drained = static_cast<double>(waiting_then_ - std::min(waiting, waiting_then_));
    const double in_hold = drained * static_cast<double>(kHold.ns) / static_cast<double>(span.ns);
    // A queue that ran dry tells only that the link is at least so fast.
    if (waiting == 0 && in_hold < in_hold_) return;
    in_hold_ += (in_hold - in_hold_) / 8;
    bytes_ = std::clamp(static_cast<std::uint64_t>(in_hold_), kLeastBytes, kMostBytes);
  }

  std::uint64_t bytes_ = kLeastBytes;
  double in_hold_ = 0;         ///< bytes that leave in kHold
  std::uint64_t waiting_ = 0;  ///< at the last look
  std::optional<Time> held_since_;
  std::uint64_t waiting_then_ = 0;
};

}  // namespace rdmc::port
