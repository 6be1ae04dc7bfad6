#include "dataplane/port/socket_address.hpp"

#include <arpa/inet.h>

#include <cstring>

namespace rdmc::port {

SocketAddress::SocketAddress(const Address& address, std::uint32_t interface_index) : SocketAddress() {
  if (address.ipv6) {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), 16);
    if (is_link_local(address)) ipv6.sin6_scope_id = interface_index;
  } else {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(address.port);
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), 4);
  }
}

Address SocketAddress::address() const {
  Address result;
  if (generic.sa_family == AF_INET6) {
    result.ipv6 = true;
    std::memcpy(result.bytes.data(), &ipv6.sin6_addr, 16);
    result.port = ntohs(ipv6.sin6_port);
  } else {
    std::memcpy(result.bytes.data(), &ipv4.sin_addr, 4);
    result.port = ntohs(ipv4.sin_port);
  }
  return result;
}

}  // namespace rdmc::port
