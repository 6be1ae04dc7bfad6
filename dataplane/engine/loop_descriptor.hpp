// One descriptor by which an application's own loop learns that an engine without a thread has something to
// do: it is readable when what the engine waits for has happened, or its next deadline has come. Any of
// epoll, poll and io_uring can watch it. One thread.
#pragma once

#include <span>
#include <utility>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::engine {

class LoopDescriptor {
 public:
  /// `watched`: what the engine's waiter gives, to be watched for edges. They outlive this. Errors:
  /// resource_limit.
  static Result<LoopDescriptor> make(std::span<const int> watched);

  int get() const { return all_.get(); }
  /// Readable at that time (CLOCK_MONOTONIC) at the latest; at once when it has passed.
  void readable_at(Time time);
  /// Takes back what made it readable. To be called before the engine looks at what there is to do.
  void take();

 private:
  LoopDescriptor(Descriptor all, Descriptor timer) : all_(std::move(all)), timer_(std::move(timer)) {}

  Descriptor all_;    ///< an epoll of those that are watched and of the timer
  Descriptor timer_;  ///< a timerfd
  Time armed_ = Time::never();
};

}  // namespace rdmc::engine
