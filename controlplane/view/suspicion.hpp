// Measures how suspicious the silence of a peer is: phi-accrual (Hayashibara et al., "The phi accrual failure
// detector", SRDS 2004). It learns how regularly the peer is heard. So a peer on a busy machine is given more
// time than a peer on an idle machine. Two bounds limit this time, whatever was learnt. One object is for one
// peer and one observer. This code does no I/O and reads no clock. Only one thread may use it.
#pragma once

#include <array>
#include <cstddef>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

class Suspicion {
 public:
  /// Makes the suspicion of a peer that counts as heard at `now`.
  Suspicion(const Timing& timing, Time now);

  /// Makes the peer count as heard at `now`. Nothing is learnt from the gap before `now`.
  void restart(Time now) { last_ = now; }
  /// Called for any message of the peer. `now` must not be smaller than in the call before.
  void heard(Time now);
  /// Returns the level of the suspicion: -log10 of the probability that a living peer, as regular as this
  /// one, is silent for this time. At level 1 a suspicion is wrong one time in ten, and at level 8 one time
  /// in a hundred million. The result is never infinite.
  double level(Time now) const;
  /// Returns the time from which the peer is suspected, if it is not heard before.
  Time suspect_at() const { return last_ + limit_; }
  bool suspects(Time now) const { return now >= suspect_at(); }
  Time last_heard() const { return last_; }

 private:
  static constexpr std::size_t kWindow = 64;  // The number of remembered gaps, which cover about 3 s.
  static constexpr double kLeastDeviationMs = 10;

  void learn();

  Timing timing_;
  double deviations_;  // The threshold of the suspicion, in standard deviations above the mean.
  std::array<float, kWindow> gaps_ms_{};
  std::size_t count_ = 0, next_ = 0;
  double mean_ms_, deviation_ms_;
  Time last_;
  Duration limit_{};
};

}  // namespace rdmc::view
