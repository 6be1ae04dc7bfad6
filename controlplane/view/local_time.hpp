// The time in which this process was running. A process that was stopped, a virtual machine that was
// suspended, and a clock that jumped cannot be distinguished from inside: in all cases much time passes
// between two turns. The silence of other processes in that time proves nothing about them. So the time
// between two turns counts as at most one step. (This is Lifeguard's local health, Dadgar et al. 2018, in its
// simplest form.) This code does no I/O and reads no clock. Only one thread may use it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::view {

class LocalTime {
 public:
  explicit LocalTime(Duration max_step) : max_step_(max_step) {}

  /// Returns the local time of a turn at the clock time `clock`. Local time never decreases, and increases by
  /// at most one step for each turn, whatever the clock does.
  Time advance(Time clock) {
    if (!started_) last_ = clock;
    started_ = true;
    const Duration step = std::clamp(clock - last_, Duration{}, max_step_);
    jumps_ += step == clock - last_ ? 0 : 1;
    last_ = clock;
    local_ = local_ + step;
    return local_;
  }
  /// Returns the clock time at which the local time is `local`, if the clock does not jump before.
  Time to_clock(Time local) const { return local == Time::never() ? local : last_ + (local - local_); }
  Time now() const { return local_; }
  /// Returns the number of turns whose clock time was more than one step later than that of the preceding
  /// turn, or earlier than that of the preceding turn.
  std::uint64_t jumps() const { return jumps_; }

 private:
  Duration max_step_;
  bool started_ = false;
  Time last_{}, local_{};
  std::uint64_t jumps_ = 0;
};

}  // namespace rdmc::view
