// Carries wake() from another thread to a thread that blocks in the kernel: a flag that is cheap to set
// twice, and an eventfd that the sleeper waits for beside its sockets.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace rdmc::port {

class WakeEvent {
 public:
  WakeEvent() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~WakeEvent() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  int descriptor() const { return descriptor_; }  ///< < 0: the constructor failed, errno says why

  void set() noexcept {
    if (set_.exchange(true)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(descriptor_, &one, sizeof one);
  }
  /// True if it was set since the last take. The eventfd is never read: each write to it is an event of its
  /// own to those who watch for edges.
  bool take() noexcept { return set_.exchange(false); }

 private:
  std::atomic<bool> set_ = false;
  int descriptor_;
};

}  // namespace rdmc::port
