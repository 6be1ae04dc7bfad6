// Measures how suspicious the silence of a peer is: phi-accrual (Hayashibara et al., "The phi accrual failure
// detector", SRDS 2004). It learns how regularly the peer is heard. So a busy machine is given more time than
// an idle one, within two bounds that hold whatever was learnt. One object is for one peer and one observer.
// This code does no I/O and reads no clock; one thread.
#pragma once

#include <array>
#include <cstddef>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

class Suspicion {
 public:
  /// The peer counts as heard at `now`.
  Suspicion(const Timing& timing, Time now);

  /// The peer counts as heard at `now`, and nothing is learnt from the gap before.
  void restart(Time now) { last_ = now; }
  /// Called for any message of the peer. `now` must not fall.
  void heard(Time now);
  /// -log10 of the probability that a peer as regular as this one is silent for this time and is not dead. At
  /// level 1 a suspicion is wrong one time in ten, at level 8 one time in a hundred million. Never infinite.
  double level(Time now) const;
  /// The time from which the peer is suspected, if it is not heard before.
  Time suspect_at() const { return last_ + limit_; }
  bool suspects(Time now) const { return now >= suspect_at(); }
  Time last_heard() const { return last_; }

 private:
  static constexpr std::size_t kWindow = 64;  // the number of remembered gaps: about 3 s
  static constexpr double kLeastDeviationMs = 10;

  void learn();

  Timing timing_;
  double deviations_;  // the threshold, in standard deviations above the mean
  std::array<float, kWindow> gaps_ms_{};
  std::size_t count_ = 0, next_ = 0;
  double mean_ms_, deviation_ms_;
  Time last_;
  Duration limit_{};
};

}  // namespace rdmc::view
