// Finds the interface that an address of this host belongs to, and the properties of this interface. A port
// must know the MTU before it sends anything. It must also know whether the interface has a link that could
// be congested.
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

/// Finds the interface that has `address`, or the loopback interface whose whole prefix contains it
/// (127.0.0.0/8). Errors: not_found, io_error.
Result<NetworkInterface> find_interface(const Address& address);

struct InterfaceAddress {
  std::string interface;
  Address address;  ///< The port number is 0.
  bool loopback = false;
};

/// Returns all addresses of the interfaces that are up, in the system's order, except link-local ones.
/// Errors: io_error.
Result<std::vector<InterfaceAddress>> interface_addresses();

/// Returns the local address from which this host would send to `peer`, with port number 0. Sends nothing.
/// Errors: not_found (there is no route to the peer), io_error.
Result<Address> local_address_towards(const Address& peer);

}  // namespace rdmc::port
