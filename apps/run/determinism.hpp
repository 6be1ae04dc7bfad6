// rdmc_run --check-determinism: runs a program several times without replicas, with messages that arrive in
// other orders, and compares what its ranks send. Each run is a child process of its own.
#pragma once

#include "apps/run/options.hpp"

namespace rdmc::run {

/// Makes all runs, prints the result, and returns the exit code of rdmc_run. `run` makes one run in a child
/// process, and returns its exit code. Must be called before there are other threads.
int check_determinism(const RunOptions& options, int (*run)(const RunOptions&));

}  // namespace rdmc::run
