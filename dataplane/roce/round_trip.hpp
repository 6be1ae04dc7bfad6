// The round-trip estimate and the timeout that follows from it (RFC 6298).
#pragma once

#include <algorithm>

#include "dataplane/base/types.hpp"
#include "dataplane/roce/constants.hpp"

namespace rdmc::roce {

class RoundTrip {
 public:
  void sample(Duration rtt) {
    if (!measured_) {
      measured_ = true;
      smoothed_ = least_ = rtt;
      variation_ = rtt / 2;
      return;
    }
    const Duration error = rtt - smoothed_;
    variation_ = variation_ + (Duration{error.ns < 0 ? -error.ns : error.ns} - variation_) / 4;
    smoothed_ = smoothed_ + error / 8;
    least_ = std::min(least_, rtt);
  }

  bool measured() const { return measured_; }
  Duration smoothed() const { return smoothed_; }
  Duration least() const { return least_; }
  Duration timeout(Duration minimum) const {
    return measured_ ? std::max(minimum, smoothed_ + variation_ * 4) : kInitialTimeout;
  }

 private:
  bool measured_ = false;
  Duration smoothed_, variation_, least_;
};

}  // namespace rdmc::roce
