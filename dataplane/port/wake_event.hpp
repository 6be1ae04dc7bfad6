// Carries wake() from another thread to a thread that blocks in the kernel: a flag that is cheap to set
// twice, and an eventfd that the sleeper waits for beside its sockets.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "dataplane/base/descriptor.hpp"

namespace rdmc::port {

class WakeEvent {
 public:
  WakeEvent() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  int descriptor() const { return descriptor_.get(); }  ///< < 0: the constructor failed, errno says why

  void set() noexcept {
    if (set_.exchange(true)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(descriptor(), &one, sizeof one);
  }
  /// True if it was set since the last take. The eventfd is never read: each write to it is an event of its
  /// own to those who watch for edges.
  bool take() noexcept { return set_.exchange(false); }

 private:
  std::atomic<bool> set_ = false;
  Descriptor descriptor_;
};

}  // namespace rdmc::port
