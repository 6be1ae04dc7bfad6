// Recognizes an address that other hosts cannot reach. Such an address must not be given to processes of
// other hosts. A transfer to such an address stays on this host. There the caches of the processor limit the
// speed, and the length of a path does not.
#pragma once

#include <algorithm>

#include "dataplane/base/address.hpp"

namespace rdmc {

/// True for 127.0.0.0/8 and ::1.
inline bool is_loopback(const Address& address) {
  if (!address.ipv6) return address.bytes[0] == 127;
  return std::all_of(address.bytes.begin(), address.bytes.end() - 1, [](auto byte) { return byte == 0; }) &&
         address.bytes.back() == 1;
}

}  // namespace rdmc
