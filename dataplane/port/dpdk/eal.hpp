// DPDK's environment (EAL). It can exist only once in a process. The first port starts it, the other ports
// share it, and it is never stopped. It is started with as few features as possible: no configuration that
// other processes share, no files, no telemetry and no threads on cores. The log of EAL is not printed, but
// kept for error messages. All functions may be called on any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "dataplane/base/error.hpp"
#include "dataplane/port/dpdk/options.hpp"

namespace rdmc::port::dpdk {

/// Starts EAL. Errors: resource_limit (EAL has no memory, or the error of room_for_descriptors), unsupported
/// (EAL failed), invalid_argument (EAL already runs with the other kind of pages, or without the PCI bus).
/// The message contains EAL's own error message.
Result<void> start_eal(const DpdkOptions& options);

/// Returns true if EAL runs with hugepages, false if it runs without them, and nullopt if it does not run.
/// All later ports must use the same kind of pages.
std::optional<bool> eal_has_hugepages();

/// Returns the warnings and errors that DPDK has logged since the last call, on one line. Returns an empty
/// string if there are none.
std::string take_eal_complaints();

/// Registers the calling thread with DPDK, until the thread ends. DPDK does not cache packet buffers for
/// other threads. A repeated call is cheap.
void register_this_thread();

/// Runs `call` on the thread that handles DPDK's events, between two events, and waits until it has returned.
void on_interrupt_thread(const std::function<void()>& call);

}  // namespace rdmc::port::dpdk
