// Chooses the values of a bcast for which the user has given `auto`. The cost model chooses the algorithm.
// The block size is the best one of several that are tried with messages of the requested size.
#pragma once

#include "bench/perf/options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Chooses the algorithm if the argument `algorithm` is true. Chooses the block size if options.block_bytes
/// is 0. Errors: those of the trials.
Result<void> choose(Options& options, bool algorithm);

}  // namespace rdmc::perf
