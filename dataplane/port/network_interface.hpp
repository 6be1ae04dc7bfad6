// Which interface an address of this host belongs to, and what it can carry: a port must know its MTU before
// it has sent anything, and whether there is a link at all that could be congested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::port {

struct NetworkInterface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu = 1500;
  bool loopback = false;
};

/// The interface that has `address`, or the loopback interface whose whole prefix contains it (127.0.0.0/8).
/// Errors: not_found, io_error.
Result<NetworkInterface> find_interface(const Address& address);

struct InterfaceAddress {
  std::string interface;
  Address address;  ///< port 0
  bool loopback = false;
};

/// All addresses of the interfaces that are up, in the system's order; none that mean something on their link
/// only. Errors: io_error.
Result<std::vector<InterfaceAddress>> interface_addresses();

/// The address of this host from which it would send to `peer`, port 0. Sends nothing. Errors: not_found (no
/// way there), io_error.
Result<Address> local_address_towards(const Address& peer);

}  // namespace rdmc::port
