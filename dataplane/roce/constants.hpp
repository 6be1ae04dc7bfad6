// The tunable constants of the RC core, with the reasons for their values. First come the protocol limits
// that a peer depends on, and then the constants that affect only this side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// The largest number of PSNs in flight with selective repeat. It is the number of bits in the responder's
/// bitmap. kMaxBitmapWords is the largest size of the bitmap in an X_ACKNOWLEDGE.
inline constexpr std::size_t kWindowPackets = 1024;
/// The largest number of PSNs in flight to a foreign endpoint. Soft-RoCE itself allows 128
/// (RXE_MAX_UNACKED_PSNS). With go-back-N a longer window would only mean more packets to send again.
inline constexpr std::size_t kStandardWindowPackets = 128;
/// The largest number of packets in a row without AckReq. Soft-RoCE's own limit is 64 (RXE_MAX_PKT_PER_ACK).
inline constexpr std::uint32_t kMaxPacketsPerAckRequest = 32;
static_assert(kMaxPacketsPerAckRequest <= 64 && 2 * kMaxPacketsPerAckRequest <= kStandardWindowPackets);

/// With selective repeat, an answer is due after this number of new packets, even if no packet requested it.
inline constexpr std::uint32_t kAckEveryPackets = 32;
/// With selective repeat, an answer is due after this time if fewer than kAckEveryPackets new packets have
/// arrived.
inline constexpr Duration kDelayedAck = milliseconds(1);

/// The largest number of bytes of one work request. The DMA length has 32 bits, and a message must take at
/// most 2^23 PSNs at every path MTU from 256 on.
inline constexpr std::uint32_t kMaxMessageBytes = 0x7FFF'FFFF;

/// The largest number of PSNs that one READ request reserves. A longer READ is split into several requests.
/// So a lost response costs less, and the request fits into the window.
inline constexpr std::uint32_t kReadRequestPackets = 32;
static_assert(kReadRequestPackets <= kStandardWindowPackets);

/// Each packet takes at least this number of bytes of the window. The reason is that the peer's kernel counts
/// the memory of a packet's skb, and not its payload, as space in the socket buffer.
inline constexpr std::uint32_t kMinimumCharge = 512;
/// Once the window has closed, new packets wait until this number of bytes of the window is free, or a
/// quarter of the window if that is less. So the packets leave in full trains (UDP_SEGMENT) and not one by
/// one.
inline constexpr std::uint32_t kBurstBytes = 64 << 10;

/// Loss detection (RACK, RFC 8985, counted in transmissions): a packet counts as lost if a packet has arrived
/// that was sent this number of transmissions later. If a packet was only reordered, the number grows, up to
/// kMaxReorderPackets.
inline constexpr std::int64_t kReorderPackets = 3, kMaxReorderPackets = 64;

/// The longest timeout on a path whose answers take longer than the ack timeout. It is limited because a host
/// that was stopped for a moment measures a long round trip.
inline constexpr Duration kMostTimeout = seconds(1);

/// The retransmission timer is that of RFC 6298. It is within [minimum, Requester::longest_timeout()] and
/// doubles from each expiry to the next. A peer is given up after (retry_limit + 1) ack timeouts of silence,
/// whatever the number of expiries in this time: 8 x 67 ms = 536 ms by default. So a dead host is detected in
/// well under a second, and a process that gets no CPU for 300 ms is not given up.
///
/// Selective repeat detects nearly every loss because later packets arrive. It needs the timer only for the
/// last packets of a message. If the timer were short, packets that only wait in a queue would be sent again.
/// Several flows of one host build such queues at 1 Gb/s. So this minimum is long.
inline constexpr Duration kMinimumTimeout = milliseconds(10);
/// The minimum of the first timeout in a row. After this timeout one packet is sent as a probe (a tail loss
/// probe, RFC 8985, section 7). The answer to the probe reports which packets are missing. The probe changes
/// no window. It is for the last packets of a message, which no later packet follows. It may be sent soon,
/// because the measured round trips include the queues of the hosts. If no packet requested an answer, the
/// timeout is longer by kDelayedAck.
inline constexpr Duration kMinimumProbeTimeout = microseconds(500);
/// The minimum timeout in go-back-N. It is short for two reasons: go-back-N keeps its queue short, and it
/// must send all packets after a loss again.
inline constexpr Duration kStandardMinimumTimeout = milliseconds(4);
/// The timeouts before the first round trip has been measured. kInitialTimeout is for selective repeat while
/// no READ or atomic is in flight, because only a probe is sent after the timeout in this case.
/// kStandardInitialTimeout is for all other cases.
inline constexpr Duration kStandardInitialTimeout = milliseconds(25), kInitialTimeout = milliseconds(3);

/// Swift (Kumar et al., SIGCOMM 2020): the target, which is the round trip to steer to. A train of 64 KB
/// takes 0.5 ms on a 1 Gb/s link, acknowledgements wait behind trains of the opposite direction, and another
/// flow on the link adds a train of its own. The value includes these waits.
inline constexpr Duration kTargetDelay = microseconds(1500);
/// On a slow link the target is at least the time that this many bytes take, because blocks of several
/// sources arrive at one receiver.
inline constexpr std::uint32_t kTargetBytes = 512 << 10;
/// The upper bound of the time that kTargetBytes are assumed to take. It keeps the target below the timeouts.
inline constexpr Duration kMostLinkTime = milliseconds(40);
/// The target in go-back-N. After a loss, go-back-N must send its whole queue again, so it keeps the queue
/// short.
inline constexpr Duration kStandardTargetDelay = microseconds(600);
/// Flow scaling (section 3.5): a flow with a small window tolerates more delay. This evens out the shares of
/// flows, and keeps many flows on one link above the minimum window. The added delay is largest for windows
/// below kScalingLowPackets, and 0 above kScalingHighPackets. With selective repeat the largest added delay
/// is kScalingRange.
inline constexpr Duration kScalingRange = microseconds(1500);
inline constexpr double kScalingLowPackets = 4, kScalingHighPackets = 100;
/// If the path itself is longer than the target, the control steers to the path's least round trip plus this
/// margin. The margin is small, because a flow that starts while other flows have a queue measures this queue
/// as a part of the path. If a whole target were added, such a flow would take most of the link: of 4 flows
/// on 1 Gb/s, the smallest and the largest share of the link are then as 9 : 307. With this margin they are
/// as 88 : 89. The disadvantage of the small margin is that a path of 2 ms is filled only to two thirds.
inline constexpr Duration kPathMargin = microseconds(200);
/// The margin is at least this fraction (1/16) of the least round trip. The reason is that on a path of 40
/// ms, a single burst of the flow itself makes a queue of more than 200 µs.
inline constexpr std::int64_t kPathMarginShare = 16;
/// The margin is also at least the time by which full packets take longer than small ones, but this time
/// counts only up to this value, because it may contain a queue. The value is the time of a packet of 9000
/// bytes on two links of 100 Mb/s.
inline constexpr Duration kMostPathMargin = microseconds(1500);
/// If the least round trip is at least this time, a window may open until the round trip is longer by a whole
/// target. The reason is that several sources may send to one receiver. Their first windows then make a queue
/// that is longer than the margins above, and that soon disappears. A second condition is that the least
/// round trip is at least Congestion::link_time(). A shorter least round trip may only be the queue of flows
/// that steer to this link time.
inline constexpr Duration kPatientStart = milliseconds(2);
/// If the least round trip is at least this time, the path counts as long. On a long path, the bytes in
/// flight may exceed the capacity of the peer's buffer by the number of bytes that the path itself holds,
/// within the bounds below. A shorter round trip may only be a queue that existed when the flow started.
inline constexpr Duration kLongPath = milliseconds(5);
inline constexpr double kMostPathBytes = 64 << 20, kMostWindowBytes = 4e9;
/// The time for which a least round trip counts as the length of the path. The time is limited because the
/// path may change permanently. It is long because a queue must not count as a part of the path.
inline constexpr Duration kLeastRoundTripPeriod = seconds(30);
/// The additive increase in packets per round trip (on a long path: per kLongPath), the slope of the
/// multiplicative decrease, and the largest decrease in one round trip.
inline constexpr double kAdditiveIncrease = 1, kDecreaseSlope = 0.8, kMostDecrease = 0.5;
inline constexpr std::uint32_t kMinimumWindowPackets = 2;
inline constexpr std::uint32_t kInitialWindowBytes = 128 << 10;
/// A round trip is judged by the smallest of at least this many samples. The packet of a single sample may
/// have waited for a CPU, and not in a queue.
inline constexpr std::uint32_t kSamplesPerRound = 2;
/// Used with selective repeat. If a round loses more than this share of its packets, a queue has overflowed.
/// Random loss alone does not explain so large a share.
inline constexpr double kHeavyLoss = 0.125;
/// Used with go-back-N, which finds at most one loss in each round. If this number of rounds in a row have a
/// loss, a queue has overflowed.
inline constexpr std::uint32_t kLossyRounds = 2;
inline constexpr double kHeavyLossDecrease = 0.75;

/// ECN (IBTA Annex A17.9): a queue pair answers all marks within this time with one congestion notification.
inline constexpr Duration kNotificationInterval = microseconds(50);
/// DCQCN (Zhu et al., SIGCOMM 2015): the gain with which the marked share of the traffic is estimated.
inline constexpr double kMarkGain = 1.0 / 256;
/// The estimated share shrinks once for each period of this length without a notification.
inline constexpr Duration kMarkPeriod = microseconds(55);
/// In each of this number of round trips after a cut, the window regains half of the distance to its earlier
/// size.
inline constexpr std::uint32_t kRecoveryRounds = 5;
/// READ responses have no congestion window. Instead, a notification adds a pause after every kResponseBurst
/// responses. If there is a pause already, a notification doubles it, up to kMostResponsePause and at most
/// once in four pauses. Every burst shortens the pause by an eighth.
inline constexpr std::uint32_t kResponseBurst = 16;
inline constexpr Duration kResponsePause = microseconds(20), kMostResponsePause = milliseconds(2);

/// The largest number of hints of expect_write that are remembered. Further hints are not used.
inline constexpr std::size_t kExpectedWrites = 256;

}  // namespace rdmc::roce
