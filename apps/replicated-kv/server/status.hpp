// rdmc_kv status: shows the servers of a service, as one of them and each of them says.
#pragma once

#include "apps/replicated-kv/server/options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// Prints the status on stdout: a table, or one JSON object. Returns the exit code: 0 if the service answers
/// and all its servers have all data, and otherwise kIncomplete. Errors: `server` cannot be asked; those of
/// the password file.
Result<int> show_status(const StatusOptions& options);

}  // namespace rdmc::kv
