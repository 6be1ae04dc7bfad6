// Tests what the kernel does with trains on the chosen address, before the port promises any feature. The
// test sends a few trains to itself. It is needed because containers, filters and old versions can make this
// kernel behave differently from its documentation.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/error.hpp"
#include "dataplane/port/socket_address.hpp"

namespace rdmc::port {

struct UdpAbilities {
  /// True if a plain datagram was received. If false, all other members are unknown.
  bool reaches_itself = false;
  bool segmentation = false;    ///< True if one call sent several datagrams.
  bool receive_trains = false;  ///< True if one call received several datagrams.
  /// The IPv4 identification that the first datagram of a train had on the wire, if the kernel shows it. The
  /// kernel shows the identification for IPv4, when it returns a sent packet with its timestamp.
  std::optional<std::uint16_t> first_identification;
};

/// Tests the kernel with two sockets that this function opens on `address`, at any port number. Takes at most
/// about 100 ms if no datagram is received. Errors: those of binding.
Result<UdpAbilities> try_udp(const SocketAddress& address);

}  // namespace rdmc::port
