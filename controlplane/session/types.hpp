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

/// Names a process for the whole job. Its rank changes from epoch to epoch. The coordinator's driver chooses
/// the number. A number is never used again.
enum class MemberId : std::uint32_t {};
/// The member that has every byte from the start. The first coordinator runs in its process.
inline constexpr MemberId kRoot{0};
/// The rank of the source of an epoch.
inline constexpr Rank kRootRank{0};

/// Both ends must have exactly this version. Otherwise the session ends with Errc::version_mismatch.
inline constexpr std::uint32_t kProtocolVersion = 4;
/// The largest size of a control message, including the opaque parts that an application puts into it. A
/// longer message is a protocol error.
inline constexpr std::size_t kMaxMessageBytes = 16u << 20;
/// Texts from a peer (causes, names) are cut to this length, and their control characters are replaced,
/// before they are printed.
inline constexpr std::size_t kMaxTextBytes = 1024;
/// Appended to the cause of a loss if the renaming of the file may have happened.
inline constexpr const char* kMayBeInPlace = " while it was committing: its copy may be in place";
/// The shortest time between two Progress messages of one participant.
inline constexpr Duration kProgressInterval = milliseconds(250);
/// The largest number of members that a participant names in one Lag message.
inline constexpr std::size_t kMostLags = 64;
/// A participant reports what its data path waits for when the same wait has lasted for this time.
inline constexpr Duration kWaitTold = seconds(1);

/// The limits of all waits of the session. The coordinator chooses the first two and sends them in its Hello.
struct Timing {
  /// The longest time between two messages to one peer. From 1 ms to 60 s.
  Duration heartbeat_interval = milliseconds(100);
  /// A member that is silent for this time has failed. At least 2 heartbeat intervals, and at most 1 h.
  Duration suspect_after = milliseconds(600);
  /// The time from the first suspicion of an epoch to the judgement.
  Duration probe_timeout = milliseconds(300);
  /// The limit for the time from start() to on_connected().
  Duration connect_timeout = seconds(10);
  /// The coordinator waits this long for a Welcome after a connection. A participant waits this long for the
  /// Hello, and again for the Job.
  Duration greet_timeout = seconds(5);
  /// The time in which the participant's application must answer the job.
  Duration job_timeout = seconds(30);
  /// The time in which a member must send its blobs. The same time again in which it must become ready.
  Duration form_timeout = seconds(10);
  /// A member that delays another one's ring for this time is a straggler.
  Duration straggler_after = milliseconds(300);
  /// A member for which others wait for this time, and which has no excuse, is lost.
  Duration stall_after = seconds(30);
  /// The time in which a member must answer End with Ended. In this time, a slow disk must write the data
  /// that has arrived.
  Duration end_timeout = seconds(30);
  /// The time for fsync and rename. An application adds the time that the size of its data needs.
  Duration commit_timeout = seconds(600);
  /// The time in which a participant must remove its temporary files.
  Duration abort_timeout = seconds(2);
  /// The time in which the coordinator's application must choose the parameters of an epoch.
  Duration application_timeout = seconds(60);
  /// How long a participant waits for a coordinator that only sends heartbeats, and how long an excuse
  /// counts.
  Duration patience = seconds(300);
  /// The time between the turns of orphans to become the coordinator. The one with the lowest number has the
  /// first turn, at once.
  Duration lead_stagger = milliseconds(200);
  /// The time after which an orphan gives up if no new coordinator has formed an epoch with it.
  Duration orphan_timeout = seconds(10);
};

/// The time between two checks of all deadlines. A process reads everything that arrived before one check
/// before it makes the next one. So a peer is lost only for a silence that two checks have seen. If a check
/// is late by more than this time, the process was not running.
inline Duration look_interval(const Timing& timing) {
  return std::min(timing.heartbeat_interval / 4, milliseconds(25));
}

struct MemberInfo {
  MemberId member{};
  Rank rank{};
  std::string name;  ///< The name as the user wrote it.
  /// The address of its control listener, for example "10.0.0.5:7700". Empty if it has none.
  std::string address;
};

/// `cause.what` continues a sentence that begins with the member's name: "fell silent for 600 ms".
struct FailedMember {
  Rank rank{};
  std::string name;
  Error cause;
};

/// A connection blob for the member with that rank, or from it.
struct PeerBlob {
  Rank peer{};
  Bytes blob;
};

enum class Status : std::uint8_t { ok, failed, refused };

struct ParticipantSpec {
  MemberId member{};    ///< Unique in the job.
  std::string name;     ///< The name that people see.
  std::string address;  ///< The address of its control listener.
  Bytes job;            ///< The session job: what its application is asked to do.
};

struct CoordinatorConfig {
  SessionId session{};  ///< A random number that the driver chooses.
  Timing timing;
  /// The participant in the coordinator's own process. It has a spec like all others.
  MemberId leader = kRoot;
  Epoch epoch{0};  ///< The last epoch that this process took part in. 0 for a new job.
  /// The size of the job. A member that reports more bytes breaks the protocol.
  std::uint64_t job_bytes = ~std::uint64_t{0};
  /// If true, an epoch ends when members are found whose links are slower than those of the others. In the
  /// next epoch the application gives them a part in which they delay nobody. Members that are far from the
  /// others get this part in the first epoch.
  bool finds_stragglers = false;
  /// True if racks are behind slow uplinks. Then all members there lag, so only far members are found.
  bool has_slow_uplinks = false;
};

// The outputs with which a state machine asks something of its driver.

/// Send this message to `member`. The channel must keep messages whole and in order. A participant sends only
/// to its coordinator, and `member` is then always kRoot.
struct Send {
  MemberId member{};
  Bytes bytes;
};
/// Close the channel after all earlier Sends are flushed. The driver may give up flushing after one second.
/// It may call on_closed() for this channel afterwards, but need not.
struct CloseChannel {
  MemberId member{};
};

// The outputs of a participant for its application. They come in this order in each epoch.

/// Create queue pairs to the neighbours that the parameters imply, and answer with blobs_made().
struct FormRequested {
  Epoch epoch{};
  Rank rank{};  ///< The rank of this process.
  std::vector<MemberInfo> members;
  Bytes parameters;
};
/// The blobs that the neighbours have made for this process. Connect the queue pairs, and answer with
/// connected().
struct PeersReady {
  Epoch epoch{};
  std::vector<PeerBlob> blobs;
};
/// Every member is connected. Start to move data.
struct StartData {
  Epoch epoch{};
};
/// Stop the data plane of this epoch, and answer with ended_state(). It is possible that the data plane has
/// not started yet.
/// `failed` never contains this process. It is empty if all members have delivered, or if the job ends.
struct EndData {
  Epoch epoch{};
  std::vector<FailedMember> failed;
};
/// Further members of the epoch have failed, after its EndData and before the next FormRequested. Needs no
/// answer.
struct AlsoFailed {
  Epoch epoch{};
  std::vector<FailedMember> failed;
};

}  // namespace rdmc::session
