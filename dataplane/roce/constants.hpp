// Every knob of the RC core, with the reason for its value. Protocol limits that a peer relies on come first,
// then those that only this side feels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// PSNs that may be under way in selective repeat: the responder's bitmap, and kMaxBitmapWords on the wire.
inline constexpr std::size_t kWindowPackets = 1024;
/// PSNs under way towards a stranger. Soft-RoCE keeps 128 itself (RXE_MAX_UNACKED_PSNS); with go-back-N a
/// longer window only means more to send again.
inline constexpr std::size_t kStandardWindowPackets = 128;
/// Most packets without AckReq; Soft-RoCE's own limit is 64 (RXE_MAX_PKT_PER_ACK).
inline constexpr std::uint32_t kMaxPacketsPerAckRequest = 32;
static_assert(kMaxPacketsPerAckRequest <= 64 && 2 * kMaxPacketsPerAckRequest <= kStandardWindowPackets);

/// Selective repeat: new packets after which an answer is due although nobody asked.
inline constexpr std::uint32_t kAckEveryPackets = 32;
/// … and how long fewer may wait for theirs.
inline constexpr Duration kDelayedAck = milliseconds(1);

/// A work's bytes: the DMA length is 32 bits, and one message stays under 2^23 PSNs at every path MTU from
/// 256.
inline constexpr std::uint32_t kMaxMessageBytes = 0x7FFF'FFFF;

/// PSNs that one READ request reserves at most; a longer READ is asked for by several, so that a lost
/// response costs less and the window holds.
inline constexpr std::uint32_t kReadRequestPackets = 32;
static_assert(kReadRequestPackets <= kStandardWindowPackets);

/// What a packet costs the peer's socket buffer at least: an skb is charged by its memory, not by its
/// payload.
inline constexpr std::uint32_t kMinimumCharge = 512;
/// Once the window has closed, new packets wait for this much room (or a quarter of the window), so that they
/// leave in trains that UDP_SEGMENT carries whole and not one by one.
inline constexpr std::uint32_t kBurstBytes = 64 << 10;

/// Loss detection (RACK, RFC 8985, counted in transmissions): a packet is lost when one that was sent this
/// many transmissions later has arrived. Grows when it proves too hasty.
inline constexpr std::int64_t kReorderPackets = 3, kMaxReorderPackets = 64;

/// The retransmission timer is RFC 6298's, within [minimum, ConnectionConfig::ack_timeout], doubling from
/// each expiry to the next. A peer is given up after (retry_limit + 1) ack timeouts of silence, however many
/// expiries that were: 8 x 67 ms = 536 ms by default, so that a dead host is known in well under a second and
/// a process that gets no CPU for 300 ms is not taken for one.
///
/// Selective repeat learns of nearly every loss from later packets. The timer covers a tail, and what is sent
/// again then is sent for nothing if it only waits in the queues that several flows of one host build at 1
/// Gb/s.
inline constexpr Duration kMinimumTimeout = milliseconds(10);
/// The first timeout in a row sends one packet whose answer tells what is missing, and changes no window (a
/// tail loss probe, RFC 8985, section 7): it is there for a message's last packets, behind which nothing
/// comes. The measured round trips have the hosts' queues in them, so it may come soon. Where no packet asked
/// for an answer, the peer may take kDelayedAck longer.
inline constexpr Duration kMinimumProbeTimeout = microseconds(500);
/// Go-back-N keeps its queue short and has everything behind a loss to send again: it asks sooner.
inline constexpr Duration kTextbookMinimumTimeout = milliseconds(4);
/// Before the first round trip has been measured; with selective repeat a probe, unless a READ is under way.
inline constexpr Duration kTextbookInitialTimeout = milliseconds(25), kInitialTimeout = milliseconds(3);

/// Swift (Kumar et al., SIGCOMM 2020). Target: the round trip to steer to. A train of 64 KB takes 0.5 ms on a
/// 1 Gb/s link, acknowledgements queue behind trains of the opposite direction, and a sharing flow adds one
/// of its own.
inline constexpr Duration kTargetDelay = microseconds(1500);
/// On a slow link, the time that so many bytes take: blocks of several sources meet at a receiver.
inline constexpr std::uint32_t kTargetBytes = 512 << 10;
/// … and at most this, so that what may wait is no timeout yet.
inline constexpr Duration kMostLinkTime = milliseconds(40);
/// Go-back-N loses the whole queue with each lost packet, so it keeps the queue short.
inline constexpr Duration kTextbookTargetDelay = microseconds(600);
/// Flow scaling (section 3.5): a flow with a small window tolerates more delay, which evens out shares and
/// leaves many flows on one link above the floor. Full below kScalingLowPackets, none above
/// kScalingHighPackets.
inline constexpr Duration kScalingRange = microseconds(1500);
inline constexpr double kScalingLowPackets = 4, kScalingHighPackets = 100;
/// A path that is itself longer than the target is steered to its least round trip and this. No more: a flow
/// that starts in others' queue takes that for the path, and with a target of its own on top would take most
/// of the link (4 flows on 1 Gb/s share 9 : 307 so, and 88 : 89 with this). The price: a path of 2 ms is
/// filled to two thirds only.
inline constexpr Duration kPathMargin = microseconds(200);
/// … or this share of it, if that is more: on a path of 40 ms one burst of our own makes a queue of more than
/// 200 µs.
inline constexpr std::int64_t kPathMarginShare = 16;
/// From this least round trip on, if it is longer than the link time that flows steer to and so no queue of
/// theirs, a window may open until the round trip is longer by a whole target. Where several sources meet at
/// a receiver, their first windows make a queue that is longer than the margins above and gone a moment
/// later.
inline constexpr Duration kPatientStart = milliseconds(2);
/// From this least round trip on a path counts as long: what it holds itself may be under way beside what the
/// peer's buffer holds, within bounds. Less may be a queue that a flow met when it began.
inline constexpr Duration kLongPath = milliseconds(5);
inline constexpr double kMostPathBytes = 64 << 20, kMostWindowBytes = 4e9;
/// How long a least round trip stands for the path; it may change for good, and a queue must not pass for
/// one.
inline constexpr Duration kLeastRoundTripPeriod = seconds(30);
/// Additive increase in packets per round trip, on a long path in each kLongPath; multiplicative decrease's
/// slope and most in one round trip.
inline constexpr double kAdditiveIncrease = 1, kDecreaseSlope = 0.8, kMostDecrease = 0.5;
inline constexpr std::uint32_t kMinimumWindowPackets = 2;
inline constexpr std::uint32_t kInitialWindowBytes = 128 << 10;
/// Delay is judged by the least of at least so many samples per round trip: one that waited for a CPU is no
/// queue.
inline constexpr std::uint32_t kSamplesPerRound = 2;
/// Selective repeat: a round that lost more than this share met a full queue, not noise …
inline constexpr double kHeavyLoss = 0.125;
/// … and go-back-N, which sees one loss per round at most, takes this many lossy rounds in a row for one.
inline constexpr std::uint32_t kLossyRounds = 2;
inline constexpr double kHeavyLossDecrease = 0.75;

/// ECN (IBTA Annex A17.9): a queue pair answers all marks of this time with one congestion notification.
inline constexpr Duration kNotificationInterval = microseconds(50);
/// DCQCN (Zhu et al., SIGCOMM 2015): the marked share of the traffic is estimated with this gain, …
inline constexpr double kMarkGain = 1.0 / 256;
/// … and fades once in this time in which no notification comes.
inline constexpr Duration kMarkPeriod = microseconds(55);
/// After a cut, the window finds back half of the way to where it was in each of so many round trips.
inline constexpr std::uint32_t kRecoveryRounds = 5;
/// READ responses have no window of ours: a notification puts this pause behind each kResponseBurst of them,
/// or doubles it, up to the most and once in four pauses; every burst shortens it by an eighth.
inline constexpr std::uint32_t kResponseBurst = 16;
inline constexpr Duration kResponsePause = microseconds(20), kMostResponsePause = milliseconds(2);

/// expect_write's hints remembered; further ones are not used.
inline constexpr std::size_t kExpectedWrites = 256;

}  // namespace rdmc::roce
