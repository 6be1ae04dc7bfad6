// When an engine without work stops looking and blocks. Looking again costs a core that another process may
// need; blocking costs a wake-up. Which is cheaper depends on how soon work comes, and pauses resemble those
// before them: while they have been longer than a spin, it would be in vain. And where a core that is offered
// between two looks is taken, the work that is waited for is likely to be done by who has taken it. Pure;
// belongs to one engine.
#pragma once

#include <algorithm>

#include "dataplane/base/types.hpp"

namespace rdmc::engine {

struct IdleStrategy {
  Duration spin = microseconds(50);  ///< how long to look again at most before blocking
  bool busy_poll = false;            ///< never block: for a dedicated core
  /// The core is offered to others between two looks: for an engine beside the threads that it works for.
  bool offers_core = false;

  friend bool operator==(const IdleStrategy&, const IdleStrategy&) = default;
};

class Idle {
 public:
  /// A pause counts as at most so many spins, so that a long one is forgotten after a few short ones.
  static constexpr std::int64_t kLongestPause = 4;
  /// The newest pause's share in the expectation is one of this.
  static constexpr std::int64_t kMemory = 8;
  /// An offer that nobody takes is a system call and no more.
  static constexpr Duration kOfferTaken = nanoseconds(1500);
  /// After one that was taken so many pauses begin without a look, and then one tries again.
  static constexpr unsigned kWithoutLook = 64;

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
    if (strategy_.busy_poll) return false;
    if (without_look_ > 0) {
      if (since_ == now) --without_look_;
      return true;
    }
    return expected_ > strategy_.spin || now - since_ >= strategy_.spin;
  }

  bool offers_core() const { return strategy_.offers_core; }
  /// The core was offered and came back after `away`.
  void offered(Duration away) {
    if (away > kOfferTaken) without_look_ = kWithoutLook;
  }

 private:
  IdleStrategy strategy_;
  Time since_ = Time::never();  ///< the first turn without work after the last one with
  Duration expected_{};         ///< moving average of the pauses
  unsigned without_look_ = 0;   ///< pauses
};

}  // namespace rdmc::engine
