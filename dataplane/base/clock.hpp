// The one place where drivers read the time. Protocol cores never include this: they are handed the time.
#pragma once

#include <time.h>

#include "dataplane/base/types.hpp"

namespace rdmc {

/// CLOCK_MONOTONIC; every driver's deadlines are on this clock.
inline Time monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

/// CLOCK_BOOTTIME: the monotonic clock, which also goes on while the machine is suspended. Leases run on it.
inline Time boottime_now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

}  // namespace rdmc
