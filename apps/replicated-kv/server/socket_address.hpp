// Converts between Address and the addresses of the socket calls. The functions are pure.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "dataplane/base/address.hpp"

namespace rdmc::kv {

/// Returns the length of the address.
inline socklen_t to_socket_address(const Address& address, sockaddr_storage& storage) {
  storage = {};
  if (address.ipv6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::memcpy(&v6.sin6_addr, address.bytes.data(), sizeof(v6.sin6_addr));
    return sizeof(v6);
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  std::memcpy(&v4.sin_addr, address.bytes.data(), sizeof(v4.sin_addr));
  return sizeof(v4);
}

inline Address from_socket_address(const sockaddr_storage& storage) {
  Address address;
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    address.ipv6 = true;
    address.port = ntohs(v6.sin6_port);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    address.port = ntohs(v4.sin_port);
    std::memcpy(address.bytes.data(), &v4.sin_addr, sizeof(v4.sin_addr));
  }
  return address;
}

}  // namespace rdmc::kv
