// Converts addresses, path MTUs, timers and outcomes between the types of rdmc and those of verbs. The
// functions have no state.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

ibv_gid gid_of(const Address& address);

/// Returns the number of bytes: 256 to 4096.
std::uint32_t bytes_of(ibv_mtu mtu);
/// Precondition: `bytes` is 256, 512, 1024, 2048 or 4096.
ibv_mtu mtu_of(std::uint32_t bytes);

/// Returns the exponent of the local ACK timeout (4.096 us x 2^exponent; IBTA vol. 1, 9.7.6.1.3), from 8 to
/// 31. With this exponent, a device that tries `tries` times gives up a silent peer after about `patience`.
std::uint8_t ack_timeout_exponent(Duration patience, std::uint32_t tries);

WorkStatus status_of(ibv_wc_status status);
/// Returns a text for people.
std::string text_of(ibv_wc_status status);

int access_flags(RemoteAccess access);

}  // namespace rdmc::fabric
