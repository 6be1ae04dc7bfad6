// The fabric for a transfer's data on this host, as given by --fabric, --device, --dscp and --encrypt. A
// plain value.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/port/registry.hpp"

namespace rdmc::bcast {

struct FabricChoice {
  std::string name{port::kAutomatic};  ///< one of fabric::fabric_names()
  std::string device;     ///< in the syntax of the fabric; if empty, the fabric looks for a device
  std::uint8_t dscp = 0;  ///< the DSCP of the packets that leave the host, 0 to 63
  /// True if data that leaves the host is encrypted. An agent with this setting refuses transfers without
  /// encryption.
  bool encrypt = false;
};

}  // namespace rdmc::bcast
