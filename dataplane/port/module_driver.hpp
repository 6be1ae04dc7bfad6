// A Driver that lives in a shared object of its own, loaded when it is first asked for a device: so nobody
// needs what it links (DPDK) to copy a file over UDP. A module that is not installed, or was built with
// another version of rdmc, is a driver that cannot be used and says why. Once loaded it stays until the
// process ends, so ports need not outlive anything. Owned by a Registry; one thread at a time.
//
// Beside what every module exports (dataplane/base/module.hpp) it has, with default visibility and C linkage,
//   rdmc::port::Driver* rdmc_make_port_driver();     a new driver, owned by the caller
#pragma once

#include <memory>
#include <string>

#include "dataplane/port/driver.hpp"

namespace rdmc::port {

struct Module {
  std::string name;     ///< of its driver
  std::string file;     ///< "librdmc_dpdk.so", found as dlopen finds it (the program's runpath, then the
                        ///< system's), or a path
  std::string remedy;   ///< the command that installs it
  std::string devices;  ///< the command that lists what a request may name
};

std::unique_ptr<Driver> module_driver(Module module);

}  // namespace rdmc::port
