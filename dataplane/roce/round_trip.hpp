// Estimates the round trip and the timeout that follows from it (RFC 6298). The smallest recent round trip
// counts as the length of the path itself. This file also estimates the time that packets wait in queues in
// one direction.
#pragma once

#include <algorithm>
#include <utility>

#include "dataplane/base/types.hpp"
#include "dataplane/roce/constants.hpp"

namespace rdmc::roce {

/// The smallest value of the present and the previous period.
class RecentLeast {
 public:
  void add(Duration value, Time now) {
    if (!has_value_ || now - period_start_ >= kLeastRoundTripPeriod) {
      before_ = has_value_ ? present_ : value;
      present_ = value;
      period_start_ = now;
      has_value_ = true;
    }
    present_ = std::min(present_, value);
  }
  /// Returns 0 before the first value.
  Duration value() const { return std::min(present_, before_); }

 private:
  bool has_value_ = false;
  Duration present_, before_;
  Time period_start_;
};

class RoundTrip {
 public:
  /// `whole` is the time from a packet's transmission to its answer. `path` is the same time without the wait
  /// of the answer in the peer's host. `is_full` is true if the packet has at least half of the path MTU.
  void sample(Duration whole, Duration path, bool is_full, Time now) {
    least_.add(path, now);
    if (is_full) least_of_full_.add(path, now);
    if (!measured_) {
      measured_ = true;
      smoothed_ = whole;
      variation_ = whole / 2;
      return;
    }
    const Duration error = whole - smoothed_;
    variation_ = variation_ + (Duration{error.ns < 0 ? -error.ns : error.ns} - variation_) / 4;
    smoothed_ = smoothed_ + error / 8;
  }

  bool measured() const { return measured_; }
  /// The smoothed value of `whole`.
  Duration smoothed() const { return smoothed_; }
  /// The smallest `path` of the present and the previous period, or 0 before the first sample. It includes no
  /// time in queues if at least one packet and its answer waited in no queue.
  Duration least() const { return least_.value(); }
  /// The same value, but of full packets only. It is larger if the path has slow links.
  Duration least_of_full() const { return std::max(least_of_full_.value(), least()); }
  /// Returns the timeout, which is at least `minimum`. Precondition: measured().
  Duration timeout(Duration minimum) const { return std::max(minimum, smoothed_ + variation_ * 4); }

 private:
  bool measured_ = false;
  Duration smoothed_, variation_;
  RecentLeast least_, least_of_full_;
};

/// The time that packets wait in queues in one direction. It is computed from the time at which a packet
/// leaves one host and the time at which it arrives at the other host. The two clocks are independent. So the
/// smallest recent difference of the two times counts as a transfer without queues (as in LEDBAT, RFC 6817).
/// If the clocks drift apart by 50 ppm, the result is wrong by 3 ms at most.
class OneWayQueue {
 public:
  /// `departure` and `arrival` are the low 32 bits of the times in ns. No wait may be longer than 2 s.
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
