// The tunable constants of connection management, with the reasons for their values.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::cm {

/// The time after which a message without an answer is repeated: 4.096 us x 2^18 = 1.07 s. The peer is told
/// this value. rdma_cm itself uses 20 (4.3 s), but a lost message need not cost so much time.
inline constexpr std::uint8_t kResponseTimeout = 18;
/// How often a message is repeated before the peer counts as unreachable. It is the largest value that fits
/// its field, and rdma_cm uses it too.
inline constexpr std::uint8_t kRetries = 15;
/// How long an ended connection is kept, to answer messages that the peer repeats. rdma_cm repeats a message
/// after 4.3 s at the latest.
inline constexpr Duration kTimeWait = seconds(10);
/// The longest time that a connection may take to be made, or to be ended. Then it is given up, whatever
/// timeouts the request named and however often the peer asked for more time. Together with kTimeWait,
/// foreign endpoints can make this side keep what they began for a minute at most. Every peer that answers is
/// much faster.
inline constexpr Duration kPatience = seconds(50);
/// The ACK timeout that a request proposes: 4.096 us x 2^14 = 67 ms. The time is long, because the peer's
/// packets are answered by a program that the kernel schedules (IBTA 9.7.6.1.3).
inline constexpr std::uint8_t kAckTimeout = 14;

}  // namespace rdmc::cm
