// The clock from which the main of a ReplicatedState takes the times of events. It never goes back.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rdmc::state {

/// After the wall clock has jumped back, the time of events is ahead of it. It must not stand still until the
/// wall clock has caught up: what waits for a time, such as an expiring key, would wait for the whole jump.
/// So it goes on, by a steady clock, a little slower than this one, and meets the wall clock some time later.
///
/// This class has no clock. All times have the same unit, which the caller chooses.
class AgreedClock {
 public:
  /// An event with this time is in the order. `steady` is the time of this process's steady clock now.
  void observe(std::int64_t time, std::int64_t steady) {
    if (has_begun_ && time <= least(steady)) return;
    has_begun_ = true;
    time_ = time;
    at_ = steady;
  }

  /// The time that an event should get now.
  std::int64_t read(std::int64_t wall, std::int64_t steady) const {
    return has_begun_ ? std::max(wall, least(steady)) : wall;
  }

  /// Forgets what was observed.
  void reset() { has_begun_ = false; }

 private:
  /// While the time of events is ahead of the wall clock, it loses this part of the time that passes.
  static constexpr std::int64_t kLostPart = 16;

  std::int64_t least(std::int64_t steady) const {
    const std::int64_t passed = std::max<std::int64_t>(steady - at_, 0);
    return time_ + passed - passed / kLostPart;
  }

  bool has_begun_ = false;
  std::int64_t time_ = 0, at_ = 0;  // the newest event whose time was not expected, and when it was observed
};

}  // namespace rdmc::state
