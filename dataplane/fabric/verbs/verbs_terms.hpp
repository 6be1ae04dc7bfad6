// Converts addresses, path MTUs, timers and outcomes between the types of rdmc and those of verbs. Values
// only.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

/// The GID of a RoCE v2 endpoint with this address: the IPv6 address, or the IPv4 address mapped into IPv6.
ibv_gid gid_of(const Address& address);

/// Returns 256 to 4096.
std::uint32_t bytes_of(ibv_mtu mtu);
/// Precondition: `bytes` is one of these five values.
ibv_mtu mtu_of(std::uint32_t bytes);

/// The exponent of the local ACK timeout (4.096 us x 2^exponent; IBTA vol. 1, 9.7.6.1.3) with which a silent
/// peer is given up after about `patience`, if the device tries `tries` times. Returns 8 to 31.
std::uint8_t ack_timeout_exponent(Duration patience, std::uint32_t tries);

WorkStatus status_of(ibv_wc_status status);
/// A text for people.
std::string text_of(ibv_wc_status status);

int access_flags(RemoteAccess access);

}  // namespace rdmc::fabric
