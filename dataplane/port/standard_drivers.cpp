#include "dataplane/port/standard_drivers.hpp"

#include "dataplane/port/module_driver.hpp"
#include "dataplane/port/udp_port.hpp"

namespace rdmc::port {

Registry standard_drivers() {
  Registry registry(udp_driver());
  registry.add(module_driver({.name = "dpdk",
                              .file = "librdmc_dpdk.so",
                              .remedy = "sudo apt-get install libdpdk-dev && tools/build build",
                              .devices = "dpdk-devbind.py --status-dev net"}));
  return registry;
}

}  // namespace rdmc::port
