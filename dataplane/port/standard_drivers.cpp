#include "dataplane/port/standard_drivers.hpp"

#include "dataplane/port/udp_port.hpp"

namespace rdmc::port {

Registry standard_drivers() {
  return Registry(udp_driver());
}

}  // namespace rdmc::port
