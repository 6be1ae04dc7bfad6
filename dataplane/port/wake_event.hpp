// Passes a wake() from another thread to a thread that blocks in the kernel. A WakeEvent has a flag, which is
// cheap to set again, and an eventfd, which the sleeping thread polls together with its sockets.
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

  /// Negative if the constructor failed; then errno has the reason.
  int descriptor() const { return descriptor_.get(); }

  void set() noexcept {
    if (set_.exchange(true)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(descriptor(), &one, sizeof one);
  }
  /// Returns true if the event was set since the last take(). The eventfd is never read. Therefore each write
  /// to the eventfd is a new event for callers that watch for edges.
  bool take() noexcept { return set_.exchange(false); }

 private:
  std::atomic<bool> set_ = false;
  Descriptor descriptor_;
};

}  // namespace rdmc::port
