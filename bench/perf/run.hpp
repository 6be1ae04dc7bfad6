// One run: every member a process of its own, forked here and waited for.
#pragma once

#include <vector>

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Returns when all member processes have ended; `meet` has their times and figures. Errors: what the member
/// that failed first said.
Result<void> run_members(const Options& options, Rendezvous& meet);

/// Of the timed iterations, ascending.
std::vector<double> seconds_taken(const Options& options, const Rendezvous& meet);

/// 0 < p <= 1; `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double p);

}  // namespace rdmc::perf
