// Tells an address that other hosts cannot reach: between processes of one machine it is offered to nobody
// else, and the caches count more than the distance.
#pragma once

#include <algorithm>

#include "dataplane/base/address.hpp"

namespace rdmc {

/// 127.0.0.0/8 or ::1.
inline bool is_loopback(const Address& address) {
  if (!address.ipv6) return address.bytes[0] == 127;
  return std::all_of(address.bytes.begin(), address.bytes.end() - 1, [](auto byte) { return byte == 0; }) &&
         address.bytes.back() == 1;
}

}  // namespace rdmc
