// The sockets' lock: a mutex that threads get in the order in which they asked for it. An application that
// polls takes the mutex again as soon as it has released it. With an unfair mutex, the fabric thread might
// never get the mutex. Then the application would poll for ever, because only the fabric thread delivers
// data. Taking a free mutex costs one atomic operation. tests/model runs this mutex in all interleavings of
// several threads.
#pragma once

#include <cstdint>
#include <mutex>

#include "dataplane/base/atomic.hpp"

namespace rdmc::sockets {

class FairMutex {
 public:
  void lock() noexcept {
    const std::uint32_t ticket = next_.fetch_add(1);
    for (std::uint32_t now = serving_.load(); now != ticket; now = serving_.load()) serving_.wait(now);
  }
  void unlock() noexcept {
    const std::uint32_t now = serving_.load(std::memory_order_relaxed) + 1;
    serving_.store(now);
    if (next_.load() != now) serving_.notify_all();
  }

 private:
  Atomic<std::uint32_t> next_ = 0, serving_ = 0;
};

/// Releases the sockets' lock during its own lifetime.
class [[nodiscard]] Unlocked {
 public:
  explicit Unlocked(std::unique_lock<FairMutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<FairMutex>& lock_;
};

}  // namespace rdmc::sockets
