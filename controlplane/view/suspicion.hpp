// How suspicious a peer's silence is: phi-accrual (Hayashibara et al., "The phi accrual failure detector",
// SRDS 2004). It learns how regularly the peer is heard, so that a busy machine is given more time than an
// idle one, between two bounds that hold whatever was learnt. One peer seen by one observer; pure; one
// thread.
#pragma once

#include <array>
#include <cstddef>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

class Suspicion {
 public:
  /// The peer counts as heard at `now`.
  Suspicion(const Timing& timing, Time now);

  /// Counts as heard at `now`, with nothing that would have been learnt yet.
  void restart(Time now) { last_ = now; }
  /// Any message of the peer; `now` does not fall.
  void heard(Time now);
  /// -log10 of the probability that a peer as regular as this one is silent for so long and not dead: 1 is
  /// wrong one time in ten, 8 one in a hundred million. Never infinite.
  double level(Time now) const;
  /// From when on it is suspected, if it is not heard before.
  Time suspect_at() const { return last_ + limit_; }
  bool suspects(Time now) const { return now >= suspect_at(); }
  Time last_heard() const { return last_; }

 private:
  static constexpr std::size_t kWindow = 64;  // gaps that are remembered: about 3 s
  static constexpr double kLeastDeviationMs = 10;

  void learn();

  Timing timing_;
  double deviations_;  // how many deviations beyond the mean the threshold lies
  std::array<float, kWindow> gaps_ms_{};
  std::size_t count_ = 0, next_ = 0;
  double mean_ms_, deviation_ms_;
  Time last_;
  Duration limit_{};
};

}  // namespace rdmc::view
