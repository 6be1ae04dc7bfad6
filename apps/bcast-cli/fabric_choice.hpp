// What carries a transfer's data on this host, as --fabric and --device say. A value.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/port/registry.hpp"

namespace rdmc::bcast {

struct FabricChoice {
  std::string name{port::kAutomatic};  ///< one of fabric::fabric_names()
  std::string device;                  ///< in that fabric's own words; empty: what it finds
  std::uint8_t dscp = 0;               ///< of the packets that leave the host, 0 … 63
  bool encrypt = false;                ///< what leaves the host; an agent: takes nothing else
};

}  // namespace rdmc::bcast
