// The common options of the programs that talk to foreign endpoints: the peer's address, the local address,
// and timeouts. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::tools {

struct ForeignOptions {
  /// The address of the first contact. nullopt if this program is the server.
  std::optional<Address> server;
  std::optional<Address> address;   ///< The address of this host for the messages.
  Duration patience = seconds(60);  ///< The timeout of the connection and of each step.
  std::string fabric = "auto";
  std::string device;     ///< In the form of the fabric's driver. Empty if the driver finds one.
  std::uint8_t dscp = 0;  ///< The DSCP of all packets, 0 … 63.
  /// True to sleep at once if there is nothing to do, without polling first.
  bool sleep = false;
};

}  // namespace rdmc::tools
