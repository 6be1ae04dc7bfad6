// The round-trip estimate, the timeout that follows from it (RFC 6298), and the least round trip of late,
// which stands for the path itself.
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

}  // namespace rdmc::roce
