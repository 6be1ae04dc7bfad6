// Decides whether a thread that is about to block must be woken by the threads that post work to it. This is
// Dekker's pattern: each side writes one variable and then reads the variable of the other side. The sleeper
// announces that it will block, and then it checks for work. A poster publishes its work, and then it checks
// whether the sleeper has made its announcement. A processor may execute a read before an earlier write (x86
// does so with plain stores, and other processors in more cases). If this happens on both sides, neither
// side sees the other side's write, and the work waits until the sleep ends by itself.
//
// A sequentially consistent fence between the write and the read of each side prevents this. One of the two
// fences comes first in their common order. The side with the later fence then reads what the other side
// wrote before its fence. So the sleeper sees the work, or the poster sees the sleeper, or both. If both
// happen, the cost is one unnecessary wake-up. tests/model runs this handshake in all interleavings.
#pragma once

#include "dataplane/base/atomic.hpp"

namespace rdmc::engine {

class SleepHandshake {
 public:
  /// The sleeper calls this before its last check for work. If the check finds work, the sleeper must not
  /// block.
  void announce() noexcept {
    asleep_.store(true, std::memory_order_relaxed);
    full_fence();
  }
  /// The sleeper calls this when it has not blocked, or no longer blocks.
  void withdraw() noexcept { asleep_.store(false, std::memory_order_relaxed); }

  /// A poster calls this after it has published its work. Any thread may be a poster. Returns true if the
  /// poster must wake the sleeper.
  bool must_wake() const noexcept {
    full_fence();
    return asleep_.load(std::memory_order_relaxed);
  }

 private:
  Atomic<bool> asleep_ = false;
};

}  // namespace rdmc::engine
