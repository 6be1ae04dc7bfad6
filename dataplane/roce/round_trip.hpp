// The round-trip estimate, the timeout that follows from it (RFC 6298), and the least round trip of late,
// which stands for the path itself; and what waits in queues on one of the two ways.
#pragma once

#include <algorithm>
#include <utility>

#include "dataplane/base/types.hpp"
#include "dataplane/roce/constants.hpp"

namespace rdmc::roce {

class RoundTrip {
 public:
  /// `whole`: from a packet's transmission to its answer. `path`: without what the answer had to wait in the
  /// peer's host.
  void sample(Duration whole, Duration path, Time now) {
    if (!measured_) {
      measured_ = true;
      smoothed_ = whole;
      least_ = least_before_ = path;
      variation_ = whole / 2;
      period_start_ = now;
      return;
    }
    const Duration error = whole - smoothed_;
    variation_ = variation_ + (Duration{error.ns < 0 ? -error.ns : error.ns} - variation_) / 4;
    smoothed_ = smoothed_ + error / 8;
    if (now - period_start_ >= kLeastRoundTripPeriod) {
      period_start_ = now;
      least_before_ = std::exchange(least_, path);
    }
    least_ = std::min(least_, path);
  }

  bool measured() const { return measured_; }
  /// Of whole round trips.
  Duration smoothed() const { return smoothed_; }
  /// Of paths, in the present and the previous period: without queues, as far as one packet met none.
  Duration least() const { return std::min(least_, least_before_); }
  /// Only for a round trip that was measured.
  Duration timeout(Duration minimum) const { return std::max(minimum, smoothed_ + variation_ * 4); }

 private:
  bool measured_ = false;
  Duration smoothed_, variation_, least_, least_before_;
  Time period_start_;
};

/// What waits in queues on one way, from when something leaves one host and when it arrives at the other. The
/// two clocks have nothing to do with each other, so the least difference of late stands for a way without
/// queues (as LEDBAT has it, RFC 6817). Clocks that drift apart by 50 ppm make that wrong by 3 ms at most.
class OneWayQueue {
 public:
  /// The low 32 bits of both times in ns; neither wait may exceed 2 s.
  Duration sample(std::uint32_t departure, std::uint32_t arrival, Time now) {
    const std::uint32_t difference = arrival - departure;
    if (!measured_) {
      measured_ = true;
      least_ = least_before_ = difference;
      period_start_ = now;
    }
    if (now - period_start_ >= kLeastRoundTripPeriod) {
      period_start_ = now;
      least_before_ = std::exchange(least_, difference);
    }
    if (is_less(difference, least_)) least_ = difference;
    const std::uint32_t least = is_less(least_, least_before_) ? least_ : least_before_;
    return nanoseconds(static_cast<std::int64_t>(difference - least));
  }

 private:
  static bool is_less(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

  bool measured_ = false;
  std::uint32_t least_ = 0, least_before_ = 0;
  Time period_start_;
};

}  // namespace rdmc::roce
