// How a thread that is about to block and those that hand it work agree whether it must be woken. This is
// Dekker's pattern: each side writes one variable and then reads the other's. The sleeper announces that it
// will block, and then looks whether there is work; a poster publishes its work, and then looks whether the
// sleeper has announced itself. A processor may let a read overtake the write before it (x86 lets it overtake
// plain stores, others more). If that happens on both sides, neither sees the other's write, and the work
// waits until the sleep ends by itself.
//
// A sequentially consistent fence between the write and the read of each side rules this out. One of the two
// fences comes first, and the side of the other one reads what was written before it. So either the sleeper
// sees the work or the poster sees the sleeper; both may be the case, which costs a wake-up that nobody
// needed.
#pragma once

#include <atomic>

namespace rdmc::engine {

/// The memory that threads share. A test has another one, in which it decides what overtakes what.
struct ProcessMemory {
  class Flag {
   public:
    void set(bool value) noexcept { value_.store(value, std::memory_order_relaxed); }
    bool get() const noexcept { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<bool> value_ = false;
  };
  static void fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
};

template <typename Memory = ProcessMemory>
class SleepHandshake {
 public:
  /// The sleeper, before its last look for work. If it finds some it does not block.
  void announce() noexcept {
    asleep_.set(true);
    Memory::fence();
  }
  /// The sleeper, when it has not blocked or does so no more.
  void withdraw() noexcept { asleep_.set(false); }

  /// A poster, after it has published its work; any thread. Whether it must wake the sleeper.
  bool must_wake() const noexcept {
    Memory::fence();
    return asleep_.get();
  }

 private:
  typename Memory::Flag asleep_;
};

}  // namespace rdmc::engine
