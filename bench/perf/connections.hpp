// The tests unicast and latency through rdmc/unicast.hpp. They post the same work requests as the tests of
// the bare queue pair, so the figures show the cost of the public interface. The engine runs on a separate
// thread, or in the calls of Endpoint::poll(). In the second case it runs like the engine of the bare queue
// pair.
#pragma once

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// True if `options.api` names a variant that uses rdmc/unicast.hpp.
bool is_of_connections(const Options& options);

/// Runs the test in each of the two member processes. Errors: those of the calls, and corrupt.
Result<void> run_connections(const Options& options, Rendezvous& meet, std::uint32_t rank);

}  // namespace rdmc::perf
