// Chooses the values that `auto` asks for in a bcast. It sends a few short messages between few of the
// members, and fits the cost model's parameters to the times. Then it tries block sizes near the model's
// choice, with messages of the requested size.
#pragma once

#include "bench/perf/options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Chooses the algorithm if `algorithm` is true, and the block size if it is 0. Errors: those of the probes.
Result<void> choose(Options& options, bool algorithm);

}  // namespace rdmc::perf
