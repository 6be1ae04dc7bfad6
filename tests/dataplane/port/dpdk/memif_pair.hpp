// Opens ports on both ends of a memif in this process. This needs no privilege, no hugepages and no
// interface.
#pragma once

#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>

#include "dataplane/port/standard_drivers.hpp"

namespace rdmc::port::dpdk::testing {

inline std::unique_ptr<Port> open_port(const std::string& device, std::uint8_t dscp = 0) {
  auto opened = standard_drivers().open("dpdk", {.address = {}, .device = device, .dscp = dscp});
  BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().what));
  return std::move(opened->port);
}

/// Opens one end. `more` contains further device arguments, each after a comma. `dscp` is the DSCP with which
/// the port is opened.
inline std::unique_ptr<Port> open_memif(const std::string& role, const std::string& name,
                                        const std::string& address, const std::string& id = "0",
                                        const std::string& more = "", std::uint8_t dscp = 0) {
  return open_port("vdev=" + name + ",socket=/rdmc_port_test-" + std::to_string(getpid()) + ",role=" + role +
                       ",id=" + id + more + " mtu=4200 huge=no address=" + address,
                   dscp);
}

}  // namespace rdmc::port::dpdk::testing
