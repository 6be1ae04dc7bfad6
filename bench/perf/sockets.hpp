// The tests unicast and latency through sockets. The same loops run over the calls of rdmc and over the
// kernel's TCP, so that the figures can be compared.
#pragma once

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// True if `options.api` names a kind of sockets.
bool is_of_sockets(const Options& options);

/// Runs the test in each of the two member processes. Errors: those of the calls, and corrupt.
Result<void> run_sockets(const Options& options, Rendezvous& meet, std::uint32_t rank);

}  // namespace rdmc::perf
