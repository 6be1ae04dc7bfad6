// The values that the two state machines of a group session exchange with their drivers and applications. A
// session copies the bytes of one job from one participant, the root, to all others. It forms epochs, notices
// failures and gives every participant one outcome. The coordinator runs in the root's process. When that
// process dies, the coordinator runs in the process of another participant. All types are plain values. Any
// thread may use them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::session {

using Bytes = std::vector<std::byte>;
using SessionId = std::array<std::byte, 16>;

/// The number of a member, which stays the same for the whole job, although the rank of the member changes
/// from epoch to epoch. The coordinator's driver chooses the number. A number is never used again.
enum class MemberId : std::uint32_t {};
/// The member that has every byte from the start. The first coordinator runs in its process.
inline constexpr MemberId kRoot{0};
/// The rank of the source of an epoch.
inline constexpr Rank kRootRank{0};

/// The version of the protocol. Both ends must have exactly this version. Otherwise the session ends with
/// Errc::version_mismatch.
inline constexpr std::uint32_t kProtocolVersion = 4;
/// The largest size of a control message, including the opaque parts that an application puts into it. A
/// longer message is a protocol error.
inline constexpr std::size_t kMaxMessageBytes = 16u << 20;
/// The largest length of a text that is printed. Longer texts from a peer (causes, names) are cut to this
/// length, and control characters in them are replaced, before they are printed.
inline constexpr std::size_t kMaxTextBytes = 1024;
/// This text is appended to the cause of a loss if the member may already have renamed its file.
inline constexpr const char* kMayBeInPlace = " while it was committing: its copy may be in place";
/// The shortest time between two Progress messages of one participant.
inline constexpr Duration kProgressInterval = milliseconds(250);
/// The largest number of members that a participant names in one Lag message.
inline constexpr std::size_t kMostLags = 64;
/// The time for which a wait of the data path must last before a participant reports it.
inline constexpr Duration kWaitTold = seconds(1);

/// The limits of all waits of the session. The coordinator chooses the values, and sends the first two in its
/// Hello.
struct Timing {
  /// The longest time between two messages to one peer. It must be from 1 ms to 60 s.
  Duration heartbeat_interval = milliseconds(100);
  /// A member that is silent for this time has failed. The value must be at least 2 heartbeat intervals, and
  /// at most 1 h.
  Duration suspect_after = milliseconds(600);
  /// The time from the first suspicion of an epoch to the judgement.
  Duration probe_timeout = milliseconds(300);
  /// The time limit from start() to on_connected().
  Duration connect_timeout = seconds(10);
  /// The time limit of each wait for a greeting. The coordinator waits this long for a Welcome after the
  /// connection. A participant waits this long for the Hello, and this long again for the Job.
  Duration greet_timeout = seconds(5);
  /// The time in which the participant's application must answer the job.
  Duration job_timeout = seconds(30);
  /// The time in which a member must send its blobs. After that, it has the same time again to become ready.
  Duration form_timeout = seconds(10);
  /// A member that delays the ring of another member for this time is a straggler. On long paths it must
  /// delay the ring for eight round trips, if this is longer, but for 3 s at most.
  Duration straggler_after = milliseconds(300);
  /// A member is lost if others wait for it for this time and it has no excuse. README.md explains the
  /// excuses.
  Duration stall_after = seconds(30);
  /// The time in which a member must answer End with Ended. A slow disk must be able to write the received
  /// data in this time.
  Duration end_timeout = seconds(30);
  /// The time for fsync and rename. An application must add the time that it needs because of the size of its
  /// data.
  Duration commit_timeout = seconds(600);
  /// The time in which a participant must remove its temporary files.
  Duration abort_timeout = seconds(2);
  /// The time in which the coordinator's application must choose the parameters of an epoch.
  Duration application_timeout = seconds(60);
  /// The time that a participant waits for a coordinator that sends heartbeats and nothing else. It is also
  /// the time for which an excuse counts.
  Duration patience = seconds(300);
  /// Orphans become the coordinator in the order of their numbers. The orphan with the lowest number may
  /// become the coordinator at once. Each further orphan must wait for this additional time after the orphan
  /// before it.
  Duration lead_stagger = milliseconds(200);
  /// The time after which an orphan gives up if no new coordinator has formed an epoch with it.
  Duration orphan_timeout = seconds(10);
};

/// The time between two checks of all deadlines. Between two checks, a process reads everything that arrived
/// before the first of them. So a silent peer counts as lost only after two checks have found the silence. If
/// a check is late by more than this time, the process was not running.
inline Duration look_interval(const Timing& timing) {
  return std::min(timing.heartbeat_interval / 4, milliseconds(25));
}

struct MemberInfo {
  MemberId member{};
  Rank rank{};
  std::string name;  ///< The name of the member, as the user wrote it.
  /// The address of the member's control listener, for example "10.0.0.5:7700". Empty if the member has no
  /// listener.
  std::string address;
};

/// A member that has failed. `cause.what` continues a sentence that begins with the member's name, for
/// example "fell silent for 600 ms".
struct FailedMember {
  Rank rank{};
  std::string name;
  Error cause;
};

/// A connection blob that was made for the member with the rank `peer`, or by that member.
struct PeerBlob {
  Rank peer{};
  Bytes blob;
};

enum class Status : std::uint8_t { ok, failed, refused };

struct ParticipantSpec {
  MemberId member{};    ///< The number of the member. It is unique in the job.
  std::string name;     ///< The name of the participant, for people.
  std::string address;  ///< The address of the participant's control listener.
  Bytes job;            ///< The session job: the task that the participant's application gets.
};

struct CoordinatorConfig {
  SessionId session{};  ///< A random number that the driver chooses.
  Timing timing;
  /// The participant in the coordinator's own process. It has a spec like every other participant.
  MemberId leader = kRoot;
  Epoch epoch{0};  ///< The last epoch in which this process took part. 0 for a new job.
  /// The size of the job in bytes. A member that reports more bytes than this breaks the protocol.
  std::uint64_t job_bytes = ~std::uint64_t{0};
  /// If true, the coordinator finds stragglers. An epoch ends when members are found whose links are slower
  /// than those of the other members. In the next epoch the application gives the stragglers a position in
  /// the schedule in which they delay no other member. Far members (members with a much longer round-trip
  /// time than most) get such a position already in the first epoch.
  bool finds_stragglers = false;
  /// True if racks are behind slow uplinks. All members behind a slow uplink lag. So the coordinator then
  /// finds only far members.
  bool has_slow_uplinks = false;
};

// The outputs by which a state machine requests something from its driver.

/// The driver must send this message to `member`. The channel must keep messages whole and in order. A
/// participant sends only to its coordinator, and `member` is then always kRoot.
struct Send {
  MemberId member{};
  Bytes bytes;
};
/// The driver must close the channel after all earlier Sends are flushed. It may give up flushing after one
/// second. The driver may call on_closed() for this channel afterwards, but this is not necessary.
struct CloseChannel {
  MemberId member{};
};

// The outputs of a participant for its application. In each epoch they are emitted in this order.

/// The application must create queue pairs to the neighbours that the parameters imply, and answer with
/// blobs_made().
struct FormRequested {
  Epoch epoch{};
  Rank rank{};  ///< The rank of this process.
  std::vector<MemberInfo> members;
  Bytes parameters;
};
/// Contains the blobs that the neighbours have made for this process. The application must connect the queue
/// pairs, and answer with connected().
struct PeersReady {
  Epoch epoch{};
  std::vector<PeerBlob> blobs;
};
/// Every member is connected. The application must start to move data.
struct StartData {
  Epoch epoch{};
};
/// The application must stop the data plane of this epoch, and answer with ended_state(). The data plane may
/// not have been started yet. `failed` never contains this process. It is empty if all members have
/// delivered, or if the job ends.
struct EndData {
  Epoch epoch{};
  std::vector<FailedMember> failed;
};
/// Further members of the epoch have failed after the EndData of the epoch and before the next FormRequested.
/// No answer is needed.
struct AlsoFailed {
  Epoch epoch{};
  std::vector<FailedMember> failed;
};

}  // namespace rdmc::session
