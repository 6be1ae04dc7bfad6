// The sockets' lock: a mutex that is handed on in the order in which threads have asked for it. An
// application that polls takes it again as soon as it has let go of it; with an unfair one the engine's
// thread, which brings what is polled for, might never get it. One atomic operation where nobody else wants
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

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
  std::atomic<std::uint32_t> next_ = 0, serving_ = 0;
};

/// Lets go of the sockets' lock for as long as it is there.
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
