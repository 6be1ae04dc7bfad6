// The tunable constants of the RC core, with the reasons for their values. The protocol limits that a peer
// depends on come first. The constants that affect only this side follow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// The most PSNs in flight with selective repeat: the size of the responder's bitmap. kMaxBitmapWords is its
/// size in an X_ACKNOWLEDGE.
inline constexpr std::size_t kWindowPackets = 1024;
/// The most PSNs in flight to a foreign endpoint. Soft-RoCE itself allows 128 (RXE_MAX_UNACKED_PSNS). With
/// go-back-N a longer window would only mean more packets to send again.
inline constexpr std::size_t kStandardWindowPackets = 128;
/// The most packets in a row without AckReq. Soft-RoCE's own limit is 64 (RXE_MAX_PKT_PER_ACK).
inline constexpr std::uint32_t kMaxPacketsPerAckRequest = 32;
static_assert(kMaxPacketsPerAckRequest <= 64 && 2 * kMaxPacketsPerAckRequest <= kStandardWindowPackets);

/// With selective repeat: after this number of new packets an answer is due although no packet asked for it.
inline constexpr std::uint32_t kAckEveryPackets = 32;
/// With selective repeat: the longest wait for an answer if there are fewer new packets.
inline constexpr Duration kDelayedAck = milliseconds(1);

/// The most bytes of one work request. The DMA length has 32 bits, and a message must take at most 2^23 PSNs
/// at every path MTU from 256 on.
inline constexpr std::uint32_t kMaxMessageBytes = 0x7FFF'FFFF;

/// The most PSNs that one READ request reserves. A longer READ is split into several requests. So a lost
/// response costs less, and the request fits into the window.
inline constexpr std::uint32_t kReadRequestPackets = 32;
static_assert(kReadRequestPackets <= kStandardWindowPackets);

/// The least number of bytes of the window that a packet is charged. The peer's kernel charges a packet to
/// the socket buffer by the memory of its skb, not by its payload.
inline constexpr std::uint32_t kMinimumCharge = 512;
/// Once the window has closed, new packets wait until this much space is free, or a quarter of the window if
/// that is less. So they leave in full trains (UDP_SEGMENT) and not one by one.
inline constexpr std::uint32_t kBurstBytes = 64 << 10;

/// Loss detection (RACK, RFC 8985, counted in transmissions): a packet is lost if another one that was sent
/// this many transmissions later has arrived. The number grows, up to kMaxReorderPackets, when it proves too
/// small.
inline constexpr std::int64_t kReorderPackets = 3, kMaxReorderPackets = 64;

/// The retransmission timer is that of RFC 6298. It is within [minimum, ConnectionConfig::ack_timeout] and
/// doubles from each expiry to the next. A peer is given up after (retry_limit + 1) ack timeouts of silence,
/// however many expiries that were: 8 x 67 ms = 536 ms by default. So a dead host is known in well under a
/// second, and a process that gets no CPU for 300 ms is not given up.
///
/// Selective repeat finds nearly every loss by later packets. The timer is for the last packets of a message.
/// A packet that only waits in a queue is then sent again for nothing, and several flows of one host build
/// such queues at 1 Gb/s. So this minimum is long.
inline constexpr Duration kMinimumTimeout = milliseconds(10);
/// The minimum of the first timeout in a row, after which one packet is sent as a probe. Its answer reports
/// what is missing. The probe changes no window (a tail loss probe, RFC 8985, section 7). It is for the last
/// packets of a message, which no later packet follows. It may be sent soon, because the measured round trips
/// include the queues of the hosts. If no packet asked for an answer, the peer may take kDelayedAck longer.
inline constexpr Duration kMinimumProbeTimeout = microseconds(500);
/// The minimum in go-back-N. It is short, because go-back-N keeps its queue short and must send everything
/// after a loss again.
inline constexpr Duration kStandardMinimumTimeout = milliseconds(4);
/// The timeouts before the first round trip has been measured. kInitialTimeout is for selective repeat while
/// no READ or atomic is in flight, because it then sends only a probe. kStandardInitialTimeout is for all
/// other cases.
inline constexpr Duration kStandardInitialTimeout = milliseconds(25), kInitialTimeout = milliseconds(3);

/// Swift (Kumar et al., SIGCOMM 2020): the target, which is the round trip to steer to. A train of 64 KB
/// takes 0.5 ms on a 1 Gb/s link, acknowledgements wait behind trains of the opposite direction, and another
/// flow on the link adds a train of its own. The value allows for these waits.
inline constexpr Duration kTargetDelay = microseconds(1500);
/// On a slow link the target is at least the time that this many bytes take, because blocks of several
/// sources arrive at one receiver.
inline constexpr std::uint32_t kTargetBytes = 512 << 10;
/// The upper bound of the time that kTargetBytes take. So a wait within the target is not yet a timeout.
inline constexpr Duration kMostLinkTime = milliseconds(40);
/// The target in go-back-N. A lost packet costs go-back-N its whole queue, so it keeps the queue short.
inline constexpr Duration kStandardTargetDelay = microseconds(600);
/// Flow scaling (section 3.5): a flow with a small window tolerates more delay. This evens out the shares of
/// flows, and keeps many flows on one link above the minimum window. The added delay is largest below
/// kScalingLowPackets (with selective repeat: kScalingRange), and 0 above kScalingHighPackets.
inline constexpr Duration kScalingRange = microseconds(1500);
inline constexpr double kScalingLowPackets = 4, kScalingHighPackets = 100;
/// A path that is itself longer than the target is steered to its least round trip plus this margin. The
/// margin is small, because a flow that starts while others have a queue takes that queue for a part of the
/// path. With a whole target on top it would take most of the link. 4 flows on 1 Gb/s then share the link 9 :
/// 307, but 88 : 89 with this margin. The cost is that a path of 2 ms is filled to two thirds only.
inline constexpr Duration kPathMargin = microseconds(200);
/// The margin is at least this fraction (1/16) of the least round trip. On a path of 40 ms one burst of the
/// flow itself makes a queue of more than 200 µs.
inline constexpr std::int64_t kPathMarginShare = 16;
/// From this least round trip on, a window may open until the round trip is longer by a whole target. The
/// least round trip must also not be below the link time that flows steer to, because otherwise it may be a
/// queue of theirs. The reason: where several sources send to one receiver, their first windows make a queue
/// that is longer than the margins above and that is gone a moment later.
inline constexpr Duration kPatientStart = milliseconds(2);
/// From this least round trip on a path counts as long. Then the bytes that the path itself holds may be in
/// flight in addition to those that the peer's buffer holds, within the bounds below. A shorter round trip
/// may be a queue that the flow met when it began.
inline constexpr Duration kLongPath = milliseconds(5);
inline constexpr double kMostPathBytes = 64 << 20, kMostWindowBytes = 4e9;
/// How long a least round trip counts as the length of the path. The time is limited because the path may
/// change for good. It is long because a queue must not be taken for the path.
inline constexpr Duration kLeastRoundTripPeriod = seconds(30);
/// The additive increase in packets per round trip (on a long path: per kLongPath), the slope of the
/// multiplicative decrease, and the largest decrease in one round trip.
inline constexpr double kAdditiveIncrease = 1, kDecreaseSlope = 0.8, kMostDecrease = 0.5;
inline constexpr std::uint32_t kMinimumWindowPackets = 2;
inline constexpr std::uint32_t kInitialWindowBytes = 128 << 10;
/// A round trip is judged by the smallest of at least this many samples. A single sample may have waited for
/// a CPU, which is not a queue.
inline constexpr std::uint32_t kSamplesPerRound = 2;
/// With selective repeat: a round that lost more than this share met a full queue, and not only noise.
inline constexpr double kHeavyLoss = 0.125;
/// In go-back-N, which finds at most one loss per round: this many lossy rounds in a row mean a full queue.
inline constexpr std::uint32_t kLossyRounds = 2;
inline constexpr double kHeavyLossDecrease = 0.75;

/// ECN (IBTA Annex A17.9): a queue pair answers all marks within this time with one congestion notification.
inline constexpr Duration kNotificationInterval = microseconds(50);
/// DCQCN (Zhu et al., SIGCOMM 2015): the gain with which the marked share of the traffic is estimated.
inline constexpr double kMarkGain = 1.0 / 256;
/// The estimated share shrinks once for each such period without a notification.
inline constexpr Duration kMarkPeriod = microseconds(55);
/// In each of this number of round trips after a cut, the window regains half of the distance to its earlier
/// size.
inline constexpr std::uint32_t kRecoveryRounds = 5;
/// READ responses have no congestion window. Instead, a notification adds a pause after each kResponseBurst
/// of them, or doubles the pause, up to kMostResponsePause and at most once in four pauses. Every burst
/// shortens the pause by an eighth.
inline constexpr std::uint32_t kResponseBurst = 16;
inline constexpr Duration kResponsePause = microseconds(20), kMostResponsePause = milliseconds(2);

/// The most hints of expect_write that are remembered. Further hints are not used.
inline constexpr std::size_t kExpectedWrites = 256;

}  // namespace rdmc::roce
