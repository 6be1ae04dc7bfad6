// DPDK's environment (EAL), which exists once in a process whatever we would like: started by the first port,
// shared by the others, never stopped. It runs here with as little as it can: no configuration shared with
// other processes, no files, no telemetry, no threads on cores, and its log kept for error messages instead
// of printed. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "dataplane/base/error.hpp"
#include "dataplane/port/dpdk/options.hpp"

namespace rdmc::port::dpdk {

/// Errors: resource_limit (room_for_descriptors, EAL's own words), unsupported (EAL's own words),
/// invalid_argument (it runs already, with other memory or without the PCI bus).
Result<void> start_eal(const DpdkOptions& options);

/// How it runs, if it does; what else is asked of it has to be the same.
std::optional<bool> eal_has_hugepages();

/// What DPDK has complained about since the last call, one line; empty if about nothing.
std::string take_eal_complaints();

/// Gives the calling thread a number of DPDK's, without which packet buffers are not cached; keeps it until
/// the thread ends. Cheap when done before.
void register_this_thread();

/// Runs `call` on the thread that handles DPDK's events, between two of them, and waits for its end.
void on_interrupt_thread(const std::function<void()>& call);

}  // namespace rdmc::port::dpdk
