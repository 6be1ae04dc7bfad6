// One run: every member is a separate process, which is forked and waited for here.
#pragma once

#include <vector>

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Returns when all member processes have ended. `meet` then has their times and figures. Errors: the error
/// of the member that failed first.
Result<void> run_members(const Options& options, Rendezvous& meet);

/// The times of the timed iterations, in ascending order.
std::vector<double> seconds_taken(const Options& options, const Rendezvous& meet);

/// Preconditions: 0 < p <= 1, and `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double p);

}  // namespace rdmc::perf
