// A descriptor for an application that runs an engine in its own loop. It shows that the engine has work. The
// descriptor is readable when an event of the engine's waiter has happened, or when the engine's next
// deadline has passed. The application can watch it with epoll, poll or io_uring. Only one thread may use it.
#pragma once

#include <span>
#include <utility>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::engine {

class LoopDescriptor {
 public:
  /// `watched` are the descriptors of the engine's waiter. They are watched edge-triggered (EPOLLET), and
  /// they must outlive this object. Errors: resource_limit.
  static Result<LoopDescriptor> make(std::span<const int> watched);

  int get() const { return all_.get(); }
  /// Makes the descriptor readable at `time` (CLOCK_MONOTONIC) at the latest, or at once if `time` has
  /// passed.
  void readable_at(Time time);
  /// Consumes the events that made the descriptor readable. Must be called before the engine checks for work.
  void take();

 private:
  LoopDescriptor(Descriptor all, Descriptor timer) : all_(std::move(all)), timer_(std::move(timer)) {}

  Descriptor all_;    ///< an epoll descriptor for the watched descriptors and the timer
  Descriptor timer_;  ///< a timerfd
  Time armed_ = Time::never();
};

}  // namespace rdmc::engine
