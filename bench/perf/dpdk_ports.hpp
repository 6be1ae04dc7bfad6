// The DPDK devices of a run whose user named none: a memif between two members, which needs no hardware, no
// interface and no privilege.
#pragma once

#include <string>
#include <vector>

#include "bench/perf/options.hpp"

namespace rdmc::perf {

/// The root's, then the other's: a pair with a secret of its own, so asked for once, before the members are
/// processes. None where DPDK is not there, which opening says better.
std::vector<std::string> memif_devices(const Options& options);

}  // namespace rdmc::perf
