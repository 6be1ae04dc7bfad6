// The time in which this process was running. A process that was stopped, a virtual machine that was
// suspended and a clock that jumped all look alike from inside: much time passes between two turns. The
// silence of the others in that time says nothing about them. So a turn counts as at most one step.
// (Lifeguard's local health, Dadgar et al. 2018, in its simplest form.) This code does no I/O and reads no
// clock; one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::view {

class LocalTime {
 public:
  explicit LocalTime(Duration max_step) : max_step_(max_step) {}

  /// Returns the local time of a turn at `clock`. It never falls, and it rises by at most one step, whatever
  /// the clock does.
  Time advance(Time clock) {
    if (!started_) last_ = clock;
    started_ = true;
    const Duration step = std::clamp(clock - last_, Duration{}, max_step_);
    jumps_ += step == clock - last_ ? 0 : 1;
    last_ = clock;
    local_ = local_ + step;
    return local_;
  }
  /// The time on the clock when the local time is `local`, if the clock does not jump before.
  Time to_clock(Time local) const { return local == Time::never() ? local : last_ + (local - local_); }
  Time now() const { return local_; }
  /// The number of turns that came more than one step after the turn before, or at an earlier clock time.
  std::uint64_t jumps() const { return jumps_; }

 private:
  Duration max_step_;
  bool started_ = false;
  Time last_{}, local_{};
  std::uint64_t jumps_ = 0;
};

}  // namespace rdmc::view
