// When an engine without work stops looking and blocks. Looking again costs a core that another process may
// need; blocking costs a wake-up. Which is cheaper depends on how soon work comes, and pauses resemble those
// before them: while they have been longer than a spin, it would be in vain. Pure; belongs to one engine.
#pragma once

#include <algorithm>

#include "dataplane/base/types.hpp"

namespace rdmc::engine {

struct IdleStrategy {
  Duration spin = microseconds(50);  ///< how long to look again at most before blocking
  bool busy_poll = false;            ///< never block: for a dedicated core
};

class Idle {
 public:
  /// A pause counts as at most so many spins, so that a long one is forgotten after a few short ones.
  static constexpr std::int64_t kLongestPause = 4;
  /// The newest pause's share in the expectation is one of this.
  static constexpr std::int64_t kMemory = 8;

  explicit Idle(IdleStrategy strategy) : strategy_(strategy) {}

  /// A turn at `now` found work.
  void found_work(Time now) {
    if (since_ == Time::never()) return;
    const Duration pause = std::min(now - since_, strategy_.spin * kLongestPause);
    expected_ = expected_ + nanoseconds((pause.ns - expected_.ns) / kMemory);
    since_ = Time::never();
  }

  /// A turn at `now` found none; true if the engine should block.
  bool found_nothing(Time now) {
    since_ = std::min(since_, now);
    return !strategy_.busy_poll && (expected_ > strategy_.spin || now - since_ >= strategy_.spin);
  }

 private:
  IdleStrategy strategy_;
  Time since_ = Time::never();  ///< the first turn without work after the last one with
  Duration expected_{};         ///< moving average of the pauses
};

}  // namespace rdmc::engine
