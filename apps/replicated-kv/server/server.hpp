// A server: its loop, which waits for clients, for the other servers and for deadlines. serve() runs on the
// calling thread until a signal.
#pragma once

#include "apps/program/stop_signals.hpp"
#include "apps/replicated-kv/server/options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// Runs a server until a signal arrives. Errors: the server cannot listen, or cannot take part in the
/// service.
Result<void> serve(const ServeOptions& options, StopSignals& signals);

}  // namespace rdmc::kv
