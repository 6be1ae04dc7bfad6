// What `auto` stands for in a bcast: a few short messages between few of the members, the cost model's
// parameters fitted to the times they take, and block sizes about the model's tried with messages of the size
// asked for.
#pragma once

#include "bench/perf/options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Sets the algorithm, if `algorithm` is to be chosen, and the block size, if it is 0. Errors: of the probes.
Result<void> choose(Options& options, bool algorithm);

}  // namespace rdmc::perf
