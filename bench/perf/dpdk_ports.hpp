// The DPDK devices of a run if the user named none: a memif between two members, which needs no hardware, no
// interface and no privilege.
#pragma once

#include <string>
#include <vector>

#include "bench/perf/options.hpp"

namespace rdmc::perf {

/// Returns the root's device, then the other member's. The two share a secret, so this function must be
/// called once, before the member processes are forked. Empty if DPDK is not available. Opening the fabric
/// then reports the reason.
std::vector<std::string> memif_devices(const Options& options);

}  // namespace rdmc::perf
