#include "controlplane/view/suspicion.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace rdmc::view {
namespace {

constexpr double kMostLevel = 300;  // Above about this level, the tail probability is 0 in a double.

double to_ms(Duration duration) {
  return static_cast<double>(duration.ns) * 1e-6;
}

/// Returns the level of a silence that is `deviations` standard deviations longer than the mean of a normal
/// distribution.
double level_of(double deviations) {
  const double tail = 0.5 * std::erfc(deviations / std::sqrt(2.0));
  return tail > 0 ? std::min(kMostLevel, -std::log10(tail)) : kMostLevel;
}

/// The inverse of level_of, computed by bisection. Called once for each peer.
double deviations_of(double level) {
  double low = -10, high = 38;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (level_of(middle) < level ? low : high) = middle;
  }
  return high;
}

}  // namespace

Suspicion::Suspicion(const Timing& timing, Time now)
    : timing_(timing),
      deviations_(deviations_of(timing.phi)),
      mean_ms_(to_ms(timing.heartbeat)),
      deviation_ms_(kLeastDeviationMs),
      last_(now) {
  assert(timing.suspect_floor <= timing.suspect_cap);
  learn();
}

void Suspicion::heard(Time now) {
  assert(now >= last_);
  // Statuses are also sent between heartbeats when something has changed. Such statuses do not show how
  // regular the peer is, so their gaps are not learnt.
  if (now - last_ >= timing_.heartbeat / 2) {
    gaps_ms_[next_] = static_cast<float>(to_ms(now - last_));
    next_ = (next_ + 1) % kWindow;
    count_ = std::min(count_ + 1, kWindow);
    learn();
  }
  last_ = now;
}

void Suspicion::learn() {
  if (count_ > 0) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      sum += gaps_ms_[i];
      squares += static_cast<double>(gaps_ms_[i]) * gaps_ms_[i];
    }
    const auto n = static_cast<double>(count_);
    mean_ms_ = sum / n;
    deviation_ms_ = std::max(kLeastDeviationMs, std::sqrt(std::max(0.0, squares / n - mean_ms_ * mean_ms_)));
  }
  const double limit_ms = mean_ms_ + to_ms(timing_.phi_pause) + deviations_ * deviation_ms_;
  limit_ = std::clamp(nanoseconds(static_cast<std::int64_t>(limit_ms * 1e6)), timing_.suspect_floor,
                      timing_.suspect_cap);
}

double Suspicion::level(Time now) const {
  return level_of((to_ms(now - last_) - to_ms(timing_.phi_pause) - mean_ms_) / deviation_ms_);
}

}  // namespace rdmc::view
