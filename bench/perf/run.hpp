// One run: this process forks a process for every member and waits for all of them.
#pragma once

#include <vector>

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Runs the members. Returns when all member processes have ended. Then `meet` has their times and figures.
/// Errors: the error of the member that failed first.
Result<void> run_members(const Options& options, Rendezvous& meet);

/// Returns the times of the timed iterations, in ascending order.
std::vector<double> seconds_taken(const Options& options, const Rendezvous& meet);

/// Returns the percentile `p` of `sorted`. Preconditions: 0 < p <= 1, and `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double p);

}  // namespace rdmc::perf
