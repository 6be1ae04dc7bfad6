// The GID of a RoCEv2 endpoint: 16 bytes by which RDMA identifies the endpoint. The GID is the IPv6 address,
// or the IPv4 address as ::ffff:a.b.c.d (IBTA annex A17.4.5; RFC 4291, 2.5.5.2). A GID has no port number.
// The functions are pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "dataplane/base/address.hpp"

namespace rdmc {

using Gid = std::array<std::uint8_t, 16>;
inline constexpr std::array<std::uint8_t, 12> kGidOfIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

inline Gid to_gid(const Address& address) {
  if (address.ipv6) return address.bytes;
  Gid gid;
  std::ranges::copy(address.ip(), std::ranges::copy(kGidOfIpv4, gid.begin()).out);
  return gid;
}

/// Returns the address, with port number 0.
inline Address from_gid(const Gid& gid) {
  if (!std::ranges::equal(kGidOfIpv4, std::span(gid).first<kGidOfIpv4.size()>())) return {true, gid, 0};
  return Address::ipv4(gid[12], gid[13], gid[14], gid[15], 0);
}

}  // namespace rdmc
