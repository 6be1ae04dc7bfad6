// Recognizes which hosts an address can belong to. is_link_local() is in address.hpp.
#pragma once

#include <algorithm>

#include "dataplane/base/address.hpp"

namespace rdmc {

/// True for 0.0.0.0 and ::, which name no host.
inline bool is_wildcard(const Address& address) {
  return std::ranges::all_of(address.ip(), [](std::uint8_t byte) { return byte == 0; });
}

/// True for 127.0.0.0/8 and ::1. Other hosts cannot reach such an address, so it must not be given to their
/// processes. A transfer to such an address stays on this host. There the caches of the processor limit the
/// speed, and the length of a path does not.
inline bool is_loopback(const Address& address) {
  if (!address.ipv6) return address.bytes[0] == 127;
  return std::all_of(address.bytes.begin(), address.bytes.end() - 1, [](auto byte) { return byte == 0; }) &&
         address.bytes.back() == 1;
}

/// True for an address that one host can have: neither a wildcard nor a multicast address. A peer must not
/// name another address as its own. Otherwise it could make this process send to many hosts.
inline bool is_host_address(const Address& address) {
  const bool multicast = address.ipv6 ? address.bytes[0] == 0xFF : address.bytes[0] >= 224;
  return !multicast && !is_wildcard(address);
}

}  // namespace rdmc
