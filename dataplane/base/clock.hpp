// The only functions by which drivers read the time. Protocol cores must not include this file: their
// callers give them the time.
#pragma once

#include <time.h>

#include "dataplane/base/types.hpp"

namespace rdmc {

/// The time of CLOCK_MONOTONIC. The deadlines of all drivers are on this clock.
inline Time monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

/// The time of CLOCK_BOOTTIME: the monotonic clock that also runs while the machine is suspended. Leases use
/// this clock.
inline Time boottime_now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

}  // namespace rdmc
