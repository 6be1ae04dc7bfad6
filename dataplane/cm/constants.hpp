// The knobs of connection management, with the reason for their values.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::cm {

/// How long an answer may take before a message is repeated, as told to the peer: 4.096 us x 2^18 = 1.07 s.
/// rdma_cm itself says 20 (4.3 s); a lost message need not cost that much.
inline constexpr std::uint8_t kResponseTimeout = 18;
/// Repetitions until a peer is taken for gone; the most that fits its field, and rdma_cm's own.
inline constexpr std::uint8_t kRetries = 15;
/// A connection that has ended is kept as long as its peer may repeat what it has not seen answered: rdma_cm
/// repeats after 4.3 s at the latest.
inline constexpr Duration kTimeWait = seconds(10);
/// What is begun and neither made nor ended by then is given up, whatever timeouts a request named and
/// however much more time its sender asked for since: with the wait after it, strangers have us keep what
/// they began for a minute at most. Every peer that answers is there much sooner.
inline constexpr Duration kPatience = seconds(50);
/// Where the other end is a program in the kernel's hands, as in every answer of ours (IBTA 9.7.6.1.3).
inline constexpr std::uint8_t kAckTimeout = 14;

}  // namespace rdmc::cm
