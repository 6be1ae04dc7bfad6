// The common options of the programs that talk to foreign endpoints: the peer's address, the local address,
// and timeouts. They are plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::tools {

struct ForeignOptions {
  /// The address of the first contact with the server. nullopt if this program is the server.
  std::optional<Address> server;
  std::optional<Address> address;   ///< The address of this host that carries the messages.
  Duration patience = seconds(60);  ///< The timeout of the connection and of each step.
  std::string fabric = "auto";
  std::string device;     ///< The device in the form of the fabric's driver; empty if the driver finds one.
  std::uint8_t dscp = 0;  ///< The DSCP of all packets, 0 to 63.
  /// If true, sleep at once if there is nothing to do. Otherwise poll for a short time first.
  bool sleep = false;
};

}  // namespace rdmc::tools
