// Finds the file of the cluster key if the user has not given its path.
#pragma once

#include <string>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// Returns this process's environment. Must not be called while another thread changes the environment.
Variables environment();

/// Returns the value of RDMC_KEY_FILE, if it is set. Otherwise returns the path rdmc/key under
/// XDG_CONFIG_HOME or under ~/.config, if that file exists. Errors: not_found; the text explains how to make
/// a key.
Result<std::string> key_file(const Variables& variables);

}  // namespace rdmc::control
