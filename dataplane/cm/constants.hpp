// The tunable constants of connection management, with the reasons for their values.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::cm {

/// The time after which a message without an answer is repeated: 4.096 us x 2^18 = 1.07 s. The messages
/// report this exponent (18) to the peer. rdma_cm itself uses 20 (4.3 s). The value here is smaller, so that
/// a lost message costs less time.
inline constexpr std::uint8_t kResponseTimeout = 18;
/// The number of times that a message is repeated before the peer counts as unreachable. It is the largest
/// value that fits its field, and rdma_cm uses it too.
inline constexpr std::uint8_t kRetries = 15;
/// The time for which an ended connection is kept, so that messages which the peer repeats are answered.
/// rdma_cm repeats a message after 4.3 s at the latest.
inline constexpr Duration kTimeWait = seconds(10);
/// The longest time that a connection may take to be made, or to be ended. After this time the connection is
/// given up, whatever timeouts the request contained and however often the peer requested more time. So this
/// side keeps the state of an unfinished connection for at most a minute, including kTimeWait. A peer that
/// answers normally is much faster.
inline constexpr Duration kPatience = seconds(50);
/// The ACK timeout that a request proposes: 4.096 us x 2^14 = 67 ms. The time is long, because the answers to
/// the peer's packets come from a program that the kernel schedules (IBTA 9.7.6.1.3).
inline constexpr std::uint8_t kAckTimeout = 14;

}  // namespace rdmc::cm
