// Where a process finds its cluster key when nobody has told it.
#pragma once

#include <string>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// This process's environment. Not while another thread changes it.
Variables environment();

/// RDMC_KEY_FILE, or rdmc/key under XDG_CONFIG_HOME or ~/.config if it is there. Errors: not_found, with the
/// remedy.
Result<std::string> key_file(const Variables& variables);

}  // namespace rdmc::control
