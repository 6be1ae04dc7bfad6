// A Driver in a shared library of its own, which is loaded when a request first names a device. A user who
// copies a file over UDP therefore does not need the libraries that the module links (DPDK). If a module is
// not installed, or was built for another version of rdmc, its driver cannot be used, and probe() and open()
// give the reason. A loaded module stays loaded until the process ends, so there is no limit for the lifetime
// of its ports. A Registry owns the driver. One thread at a time may use it.
//
// In addition to the functions that every module exports (dataplane/base/module.hpp), the module exports the
// following function, with default visibility and C linkage. It returns a new driver, which the caller owns.
//   rdmc::port::Driver* rdmc_make_port_driver();
#pragma once

#include <memory>
#include <string>

#include "dataplane/port/driver.hpp"

namespace rdmc::port {

struct Module {
  std::string name;  ///< The name of the module's driver.
  /// The file name "librdmc_dpdk.so", or a path. dlopen searches for a file name on the program's runpath and
  /// then on the system's paths.
  std::string file;
  std::string remedy;   ///< The command that installs the module.
  std::string devices;  ///< The command that lists the devices that a request may name.
};

std::unique_ptr<Driver> module_driver(Module module);

}  // namespace rdmc::port
