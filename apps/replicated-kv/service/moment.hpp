// A Moment is what the clocks of a server say at one time. Service has no clock, so its driver passes a
// moment in.
#pragma once

#include "apps/replicated-kv/data/database.hpp"

namespace rdmc::kv {

struct Moment {
  Moment() = default;
  /// Both clocks say the same. This is for servers in a simulation.
  Moment(Milliseconds both) : wall(both), steady(both) {}  // NOLINT: a time is a moment there.
  Moment(Milliseconds wall_clock, Milliseconds steady_clock) : wall(wall_clock), steady(steady_clock) {}

  Milliseconds wall =
      0;  ///< since 1970. It can jump. Only what clients know as times of day follows from it.
  Milliseconds steady = 0;  ///< since any point. It never goes back. All limits of time follow from it.
};

}  // namespace rdmc::kv
