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
  void sample(Duration rtt, Time now) {
    if (!measured_) {
      measured_ = true;
      smoothed_ = least_ = least_before_ = rtt;
      variation_ = rtt / 2;
      period_start_ = now;
      return;
    }
    const Duration error = rtt - smoothed_;
    variation_ = variation_ + (Duration{error.ns < 0 ? -error.ns : error.ns} - variation_) / 4;
    smoothed_ = smoothed_ + error / 8;
    if (now - period_start_ >= kLeastRoundTripPeriod) {
      period_start_ = now;
      least_before_ = std::exchange(least_, rtt);
    }
    least_ = std::min(least_, rtt);
  }

  bool measured() const { return measured_; }
  Duration smoothed() const { return smoothed_; }
  /// Of the present and the previous period: the path without its queues.
  Duration least() const { return std::min(least_, least_before_); }
  Duration timeout(Duration minimum) const {
    return measured_ ? std::max(minimum, smoothed_ + variation_ * 4) : kInitialTimeout;
  }

 private:
  bool measured_ = false;
  Duration smoothed_, variation_, least_, least_before_;
  Time period_start_;
};

}  // namespace rdmc::roce
