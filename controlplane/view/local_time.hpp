// The time as far as this process took part in it. A process that was stopped, a virtual machine that was
// suspended and a clock that jumped all look alike from inside: much time between two turns. What silence
// the others kept meanwhile says nothing about them, so a turn counts at most a step. (Lifeguard's
// local health, Dadgar et al. 2018, in its simplest form.) Pure; one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::view {

class LocalTime {
 public:
  explicit LocalTime(Duration max_step) : max_step_(max_step) {}

  /// The local time of a turn at `clock`. It never falls, and rises by at most a step, whatever the clock
  /// does.
  Time advance(Time clock) {
    if (!started_) last_ = clock;
    started_ = true;
    const Duration step = std::clamp(clock - last_, Duration{}, max_step_);
    jumps_ += step == clock - last_ ? 0 : 1;
    last_ = clock;
    local_ = local_ + step;
    return local_;
  }
  /// What the clock shows when the local time comes, if nothing jumps before.
  Time to_clock(Time local) const { return local == Time::never() ? local : last_ + (local - local_); }
  Time now() const { return local_; }
  /// Turns that came late by more than a step, or before the last one.
  std::uint64_t jumps() const { return jumps_; }

 private:
  Duration max_step_;
  bool started_ = false;
  Time last_{}, local_{};
  std::uint64_t jumps_ = 0;
};

}  // namespace rdmc::view
