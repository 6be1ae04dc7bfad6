// The same things in our words and in the verbs': addresses, path MTUs, timers, outcomes. Values only.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

/// The GID that a RoCE v2 endpoint with this address has: the IPv6 address, or the IPv4 one mapped into it.
ibv_gid gid_of(const Address& address);

/// 256 … 4096.
std::uint32_t bytes_of(ibv_mtu mtu);
/// `bytes`: one of those.
ibv_mtu mtu_of(std::uint32_t bytes);

/// The local ACK timeout, as its exponent (4.096 us x 2^exponent; IBTA vol. 1, 9.7.6.1.3), with which a peer
/// that is silent is given up after about `patience`, asked `tries` times: 8 … 31.
std::uint8_t ack_timeout_exponent(Duration patience, std::uint32_t tries);

WorkStatus status_of(ibv_wc_status status);
/// What happened, for people.
std::string text_of(ibv_wc_status status);

int access_flags(RemoteAccess access);

}  // namespace rdmc::fabric
