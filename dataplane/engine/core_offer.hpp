// Decides when a thread that spins offers its core to other threads (sched_yield). The awaited work usually
// comes soon from a thread on another core, so the thread spins without offers at first. If another thread
// took the core at the last offer, that thread probably produces the awaited work. So the core is then
// offered at once. An offer that no thread takes costs one system call, which the caller makes. A CoreOffer
// has no I/O and no clock. Any thread may call it.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::engine {

class CoreOffer {
 public:
  /// If an offer lasts no longer than this, no thread has taken the core, and the time is only that of the
  /// system call.
  static constexpr Duration kUntaken = nanoseconds(1500);
  static constexpr bool is_taken(Duration away) { return away > kUntaken; }

  /// `patience` is how long the thread spins before an offer, unless the last offer was taken. The caller
  /// chooses the unit, for example nanoseconds or turns.
  explicit CoreOffer(std::int64_t patience) : patience_(patience) {}

  /// Returns true if a thread that has spun for `spun` (in the unit of `patience`) should offer its core.
  bool is_due(std::int64_t spun) const {
    return spun >= patience_ || was_taken_.load(std::memory_order_relaxed);
  }
  /// Called when the core was offered, and this thread ran again after `away`.
  void offered(Duration away) { was_taken_.store(is_taken(away), std::memory_order_relaxed); }

 private:
  std::int64_t patience_;
  std::atomic<bool> was_taken_ = false;
};

}  // namespace rdmc::engine
