// Shared objects of ours that are loaded when they are first needed, so that nobody else needs what they link
// (DPDK, PMIx). Such a module exports, with default visibility and C linkage,
//   const char* rdmc_module_version();     RDMC_VERSION of its build
// and a function that makes what it is for. Once loaded it stays until the process ends: libraries like those
// leave threads and maps behind. Any thread.
#pragma once

#include <string>

#include "dataplane/base/error.hpp"

namespace rdmc {

/// The function `maker` of the module in `file`, which is a path, or a name that is found as dlopen finds it:
/// on the runpath of the program or library that this is linked into, then the system's. Errors: unsupported
/// (it is not there, or no module with that function), resource_limit, version_mismatch (of another build's
/// version).
Result<void*> find_in_module(const std::string& file, const char* maker);

}  // namespace rdmc
