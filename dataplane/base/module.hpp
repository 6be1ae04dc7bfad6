// Loads modules: shared libraries of rdmc that are loaded when they are first needed, so that other programs
// do not need the libraries that a module links (DPDK, PMIx).
//
// A module exports two functions with default visibility and C linkage: `const char* rdmc_module_version()`,
// which returns the RDMC_VERSION of its build, and a function that makes the object for which the module
// exists. A module stays loaded until the process ends, because the libraries that it links keep threads and
// memory mappings. Any thread may call find_in_module().
#pragma once

#include <string>

#include "dataplane/base/error.hpp"

namespace rdmc {

/// Returns the function `maker` of the module in `file`. `file` is a path, or a name that dlopen searches:
/// first on the runpath of the program or library that contains this function, then in the system's
/// directories. Errors: unsupported if the file does not exist or is not a module with this function,
/// resource_limit, version_mismatch if the module was built with another version.
Result<void*> find_in_module(const std::string& file, const char* maker);

}  // namespace rdmc
