// Chooses the values of a bcast for which the user has given `auto`. It sends a few short messages between a
// few of the members, and fits the cost model's parameters to the times. Then it tries block sizes near the
// model's choice, with messages of the requested size.
#pragma once

#include "bench/perf/options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Chooses the algorithm if the argument `algorithm` is true. Chooses the block size if options.block_bytes
/// is 0. Errors: those of the probes.
Result<void> choose(Options& options, bool algorithm);

}  // namespace rdmc::perf
