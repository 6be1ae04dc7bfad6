// Decides when an engine without work stops spinning and blocks. Spinning costs a core that another process
// may need, and blocking costs a wake-up. Which of the two is cheaper depends on how soon work arrives.
// Pauses are usually similar to the pauses before them. So if recent pauses were longer than a spin, spinning
// would probably find no work. An engine may also offer its core to other threads between two turns. If
// another thread takes the core, it is likely to be the thread that produces the awaited work. So spinning
// would find no work in that case, too. An Idle object has no I/O and no clock, and it belongs to one engine.
#pragma once

#include <algorithm>

#include "dataplane/base/types.hpp"
#include "dataplane/engine/core_offer.hpp"

namespace rdmc::engine {

struct IdleStrategy {
  Duration spin = microseconds(50);  ///< the longest time to spin before blocking
  bool busy_poll = false;  ///< True if the engine never blocks. This is for a core that only the engine uses.
  /// True if the engine offers its core to other threads between two turns. This is for an engine that
  /// shares its cores with the threads that it works for.
  bool offers_core = false;

  friend bool operator==(const IdleStrategy&, const IdleStrategy&) = default;
};

class Idle {
 public:
  /// A pause counts as at most this number of spins, so that a few short pauses outweigh a long one.
  static constexpr std::int64_t kLongestPause = 4;
  /// The newest pause has a weight of 1 / kMemory in the moving average.
  static constexpr std::int64_t kMemory = 8;
  /// After another thread took the offered core, the engine blocks without spinning in this number of pauses.
  /// After these pauses, it spins again.
  static constexpr unsigned kWithoutLook = 64;

  explicit Idle(IdleStrategy strategy) : strategy_(strategy) {}

  /// Called when a turn at `now` found work.
  void found_work(Time now) {
    if (since_ == Time::never()) return;
    const Duration pause = std::min(now - since_, strategy_.spin * kLongestPause);
    expected_ = expected_ + nanoseconds((pause.ns - expected_.ns) / kMemory);
    since_ = Time::never();
  }

  /// Called when a turn at `now` found no work. Returns true if the engine should block.
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
  /// Called when the core was offered, and this thread ran again after `away`.
  void offered(Duration away) {
    if (CoreOffer::is_taken(away)) without_look_ = kWithoutLook;
  }

 private:
  IdleStrategy strategy_;
  Time since_ = Time::never();  ///< the first turn without work after the last turn with work
  Duration expected_{};         ///< the moving average of the pauses
  unsigned without_look_ = 0;   ///< the number of coming pauses in which the engine blocks without spinning
};

}  // namespace rdmc::engine
