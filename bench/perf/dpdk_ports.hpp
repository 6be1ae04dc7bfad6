// The DPDK devices of the members of a run: those that the user named, or a memif between two members that
// needs no hardware, no interface and no privilege.
#pragma once

#include "bench/perf/options.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::perf {

/// For member `rank`; called in its process.
port::PortRequest dpdk_request(const Options& options, std::uint32_t rank);

}  // namespace rdmc::perf
