// One function for each kind of program that rdmc_bcast can be. main() calls it after it has parsed the
// command line. Each function blocks until the program is done, prints all output, and returns the exit code.
#pragma once

#include "apps/bcast-cli/options.hpp"
#include "apps/bcast-cli/sender.hpp"

namespace rdmc::bcast {

ExitCode run_send(const SendOptions& options);
/// Runs one task of a job that was started with --launch. All tasks of the job have the same command line.
/// The first task sends. Each other task receives, and ends when it has the file.
ExitCode run_launched(SendOptions options);
ExitCode run_agent(const AgentOptions& options);
ExitCode run_keygen(const KeygenOptions& options);
/// Runs a receiver of --local. Its descriptors are inherited (local_receivers.hpp).
ExitCode run_local_receiver(const LocalReceiverOptions& options);

/// Returns the exit code for the result of a transfer. `signalled` is true if the user asked the sender to
/// stop.
ExitCode exit_code(const SenderResult& result, bool signalled);

}  // namespace rdmc::bcast
