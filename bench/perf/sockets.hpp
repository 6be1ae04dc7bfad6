// unicast and latency through sockets: the same loops over our calls and over the kernel's TCP, so that the
// one's figures stand beside the other's.
#pragma once

#include "bench/perf/options.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::perf {

/// Whether `options.api` is one of sockets'.
bool is_of_sockets(const Options& options);

/// In each of the two member processes. Errors: what the calls say, corrupt.
Result<void> run_sockets(const Options& options, Rendezvous& meet, std::uint32_t rank);

}  // namespace rdmc::perf
