// What every program for strangers is told: who the peer is, where we are, and how long it may take. A plain
// value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::tools {

struct ForeignOptions {
  std::optional<Address> server;    ///< where it is first met; none: be the server
  std::optional<Address> address;   ///< of this host, for the messages
  Duration patience = seconds(60);  ///< for the connection, and for each step
  std::string fabric = "auto";
  std::string device;     ///< in the fabric's own words; empty: what it finds
  std::uint8_t dscp = 0;  ///< of all packets, 0 … 63
  bool sleep = false;     ///< at once when there is nothing to do, and not look again for a while first
};

}  // namespace rdmc::tools
