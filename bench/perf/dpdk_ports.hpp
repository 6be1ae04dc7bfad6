// The DPDK devices of a run for which the user named none. They are the two ends of a memif between two
// members, which needs no hardware, no interface and no privilege.
#pragma once

#include <string>
#include <vector>

#include "bench/perf/options.hpp"

namespace rdmc::perf {

/// Returns two devices: the root's device and the other member's device. The two devices share a secret, so
/// this function must be called once, before the member processes are forked. Returns an empty list if DPDK
/// is not available. In this case opening the fabric reports the reason.
std::vector<std::string> memif_devices(const Options& options);

}  // namespace rdmc::perf
