// What main() does with each command line: one function for each kind of program that rdmc_bcast is. They
// block until it is done, print what is to be printed, and return the exit code.
#pragma once

#include "apps/bcast-cli/options.hpp"
#include "apps/bcast-cli/sender.hpp"

namespace rdmc::bcast {

ExitCode run_send(const SendOptions& options);
/// One task of a job, all of which have this command line: the first one sends, the others receive, and end
/// when they have the file.
ExitCode run_launched(SendOptions options);
ExitCode run_agent(const AgentOptions& options);
ExitCode run_keygen(const KeygenOptions& options);
/// A receiver of --local; its descriptors are inherited (local_receivers.hpp).
ExitCode run_local_receiver(const LocalReceiverOptions& options);

/// What a transfer's end means to the caller. `signalled`: the user asked it to stop.
ExitCode exit_code(const SenderResult& result, bool signalled);

/// "rdmc_bcast: TEXT" on stderr.
void complain(const Error& error);

}  // namespace rdmc::bcast
