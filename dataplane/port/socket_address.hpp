// Converts between Address and the kernel's sockaddr. SocketAddress is a value type. For a link-local IPv6
// address, it also contains the index of the interface where the address is valid.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "dataplane/base/address.hpp"

namespace rdmc::port {

union SocketAddress {
  sockaddr generic;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;

  SocketAddress() : ipv6{} {}
  SocketAddress(const Address& address, std::uint32_t interface_index);

  socklen_t size() const { return generic.sa_family == AF_INET6 ? sizeof ipv6 : sizeof ipv4; }
  Address address() const;
};

}  // namespace rdmc::port
