// unicast and latency through rdmc/unicast.hpp: the same works as those of the bare queue pair, so that the
// figures show what the public interface costs. The engine runs on a thread of its own, or in the calls of
// Endpoint::poll(), as the bare queue pair's does.
#pragma once

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Whether `options.api` is one of rdmc/unicast.hpp.
bool is_of_connections(const Options& options);

/// In each of the two member processes. Errors: what the calls say, corrupt.
Result<void> run_connections(const Options& options, Rendezvous& meet, std::uint32_t rank);

}  // namespace rdmc::perf
