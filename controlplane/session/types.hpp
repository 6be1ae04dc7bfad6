// The values that a group session's two state machines exchange with their drivers and applications. A
// session fans one job out from one participant, the root, to the others; it forms epochs, notices failures
// and brings every participant to one outcome. The coordinator runs in the root's process, and when that
// process dies, in the process of another participant. Plain values, owned by whoever holds them; any thread.
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

/// Names a process for the whole job, while its rank changes from epoch to epoch. Chosen by the coordinator's
/// driver, never reused.
enum class MemberId : std::uint32_t {};
/// The member that has every byte from the start. It is the first to have the coordinator in its process.
inline constexpr MemberId kRoot{0};
/// The source of an epoch.
inline constexpr Rank kRootRank{0};

/// Both ends speak exactly this version or part with Errc::version_mismatch.
inline constexpr std::uint32_t kProtocolVersion = 4;
/// A longer control message is a protocol error; the opaque parts of an application must fit.
inline constexpr std::size_t kMaxMessageBytes = 16u << 20;
/// Texts from a peer (causes, names) are cut to this and stripped of control characters before anyone prints
/// them.
inline constexpr std::size_t kMaxTextBytes = 1024;
/// Follows the cause of a loss that leaves open whether the rename has happened.
inline constexpr const char* kMayBeInPlace = " while it was committing: its copy may be in place";
/// Progress messages of one participant are at least this far apart.
inline constexpr Duration kProgressInterval = milliseconds(250);
/// A participant names at most so many members that hold up its ring.
inline constexpr std::size_t kMostLags = 64;
/// A participant tells what its data path waits for once it has waited so long for the same.
inline constexpr Duration kWaitTold = seconds(1);

/// Every wait of the session. The first two are the coordinator's choice and travel in its Hello.
struct Timing {
  Duration heartbeat_interval = milliseconds(100);  ///< 1 ms … 60 s; a message goes out at least this often
  Duration suspect_after = milliseconds(600);  ///< silence that makes a member failed; at least 2 heartbeats
  Duration probe_timeout = milliseconds(300);  ///< from the first suspicion of an epoch to the judgement
  Duration connect_timeout = seconds(10);      ///< from start() to on_connected()
  Duration greet_timeout = seconds(5);         ///< connected, but no Hello or Welcome
  Duration job_timeout = seconds(30);          ///< for the participant's application to answer the job
  Duration form_timeout = seconds(10);         ///< for blobs, and again for readiness
  Duration straggler_after = milliseconds(300);  ///< for which a straggler holds up another's ring
  Duration stall_after = seconds(30);            ///< that others wait for a member without an excuse
  Duration end_timeout = seconds(30);  ///< for an ended data plane's state; a slow disk takes what has come
  Duration commit_timeout = seconds(600);  ///< for fsync and rename; an application adds what its size takes
  Duration abort_timeout = seconds(2);     ///< for temporary files to be removed
  Duration application_timeout = seconds(60);  ///< for the coordinator's own application to decide
  Duration patience = seconds(300);  ///< a participant's wait for a coordinator that only heartbeats, and how
                                     ///< long an excuse counts
  Duration lead_stagger = milliseconds(200);  ///< between the turns of survivors to lead on without the root
  Duration orphan_timeout = seconds(10);      ///< for somebody to lead on and form an epoch
};

/// Between two looks at what can be due. What arrived before a look is read before the next one, so nobody is
/// lost for a silence that only one look has seen; and who looks later than that was not running.
inline Duration look_interval(const Timing& timing) {
  return std::min(timing.heartbeat_interval / 4, milliseconds(25));
}

struct MemberInfo {
  MemberId member{};
  Rank rank{};
  std::string name;     ///< as the user wrote it
  std::string address;  ///< of its control listener, "10.0.0.5:7700"; empty when it has none
};

/// `cause.what` reads after the member's name: "fell silent for 600 ms".
struct FailedMember {
  Rank rank{};
  std::string name;
  Error cause;
};

/// A connection blob for (or from) the member with that rank.
struct PeerBlob {
  Rank peer{};
  Bytes blob;
};

enum class Status : std::uint8_t { ok, failed, refused };

struct ParticipantSpec {
  MemberId member{};    ///< unique
  std::string name;     ///< for people
  std::string address;  ///< of its control listener
  Bytes job;            ///< what its application is asked to do
};

struct CoordinatorConfig {
  SessionId session{};  ///< random, from the driver
  Timing timing;
  MemberId leader = kRoot;  ///< the participant in the coordinator's own process; it has a spec like all
  Epoch epoch{0};           ///< the last one that this process was in; 0: the job is new
  std::uint64_t job_bytes = ~std::uint64_t{0};  ///< nobody can have more
  /// An epoch ends when members are found whose links are slower than the others'. The application gives them
  /// in the next one a part in which they hold up nobody. Far members get it in the first one.
  bool finds_stragglers = false;
  /// Whoever is behind such an uplink lags, so that only far members are found.
  bool has_slow_uplinks = false;
};

// What a machine asks of its driver.

/// One whole message; the channel keeps message boundaries and order. A participant's only correspondent is
/// kRoot.
struct Send {
  MemberId member{};
  Bytes bytes;
};
/// Close the channel once the sends before this one are flushed; a driver may give up flushing after a
/// second. on_closed() may or may not follow.
struct CloseChannel {
  MemberId member{};
};

// What a participant tells its application, in this order for each epoch.

/// Create queue pairs towards the neighbours that the parameters imply; answer blobs_made().
struct FormRequested {
  Epoch epoch{};
  Rank rank{};  ///< our own
  std::vector<MemberInfo> members;
  Bytes parameters;
};
/// The neighbours' blobs for us: connect; answer connected().
struct PeersReady {
  Epoch epoch{};
  std::vector<PeerBlob> blobs;
};
/// Every member is connected: move data.
struct StartData {
  Epoch epoch{};
};
/// Stop the data plane of this epoch, whatever it has come to (it may not have started); answer
/// ended_state(). Our own process is never in the list; an empty list means that everyone has delivered or
/// that the job ends.
struct EndData {
  Epoch epoch{};
  std::vector<FailedMember> failed;
};
/// Further members of the epoch failed after its EndData and before the next FormRequested. No answer.
struct AlsoFailed {
  Epoch epoch{};
  std::vector<FailedMember> failed;
};

}  // namespace rdmc::session
