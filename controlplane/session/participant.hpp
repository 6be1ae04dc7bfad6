// The participant of a group session, as a core: it has no socket, clock, thread or randomness. The driver
// gives it messages, closed channels and the time, and must drain poll() after each call. The application
// answers the participant's events with the commands below, at once or later. The participant owns all its
// data. Only one thread may use it at a time.
//
// The participant ends with exactly one Finished, whatever the coordinator does. A command that does not fit
// any more is ignored, for example because its epoch has ended or the job is being aborted. The reason for
// this rule is that the application may not yet have seen the event that made the command useless.
//
// A participant that loses its coordinator after an epoch has been formed is an orphan. It ends the epoch and
// keeps its data for Timing::orphan_timeout. It follows the first survivor that sends a Hello with the same
// session. If no survivor with a lower number sends such a Hello in time, the participant asks its driver to
// run a Coordinator. The participant is then one of the participants of that Coordinator.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "controlplane/session/types.hpp"
#include "dataplane/relay/wait.hpp"

namespace rdmc::session {

namespace wire {
class Envelope;
class Hello;
class Form;
class Peers;
class End;
}  // namespace wire

/// The coordinator offers a job. The application must answer with accept() or fail() within
/// Timing::job_timeout.
struct JobOffered {
  SessionId session{};
  Bytes description;
};
/// The report was correct. The application must make the file durable, rename it, and answer with committed()
/// or fail(). From now on the coordinator cannot undo the commit. The data plane must continue, because other
/// members may still need this member's blocks.
struct CommitRequested {};
/// This participant is an orphan, and no survivor with a lower number has become the coordinator in time. The
/// driver must run a Coordinator with these participants. This participant is one of them. Its channel may be
/// a queue in the process.
struct LeadRequested {
  CoordinatorConfig config;
  std::vector<ParticipantSpec> participants;
};
/// The application must stop the data plane, remove everything unfinished, and answer with abort_done().
/// After that, only Finished with the cause follows.
struct AbortRequested {};
/// The last event. The application must stop everything that still runs. `cause` is valid unless the status
/// is ok.
struct Finished {
  Status status = Status::failed;
  Error cause;
};

using ParticipantOutput =
    std::variant<Send, CloseChannel, JobOffered, FormRequested, PeersReady, StartData, EndData, AlsoFailed,
                 CommitRequested, LeadRequested, AbortRequested, Finished>;

struct ParticipantConfig {
  /// The name and version of the program. The coordinator shows them in messages to people.
  std::string agent;
  /// heartbeat_interval and suspect_after are replaced by the values in the coordinator's Hello.
  Timing timing;
};

struct ParticipantCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  /// Messages of an epoch that has ended, and messages that arrived after the end of the job.
  std::uint64_t late_messages = 0;
  /// Messages that were malformed, or that are not allowed in the current phase. Each of them ends the job at
  /// this participant.
  std::uint64_t protocol_errors = 0;
  /// Commands that were ignored, because they did not fit any more. The application had not yet seen the
  /// event that made them useless.
  std::uint64_t ignored_commands = 0;
  /// The number of times that a coordinator was lost and this participant kept its data for the next
  /// coordinator.
  std::uint64_t orphaned = 0;
};

class Participant {
 public:
  explicit Participant(ParticipantConfig config);

  // Inputs from the driver.
  /// The driver must call this when there is a channel to the coordinator. It calls this again when a new
  /// coordinator has connected while is_orphan() is true.
  void on_connected(Time now);
  void on_message(std::span<const std::byte> bytes, Time now);
  /// The driver must call this when the control channel has ended because of the peer or the network.
  void on_closed(const Error& cause, Time now);
  void on_timer(Time now);
  /// Returns the time by which on_timer() must be called. Returns Time::never() after the participant has
  /// finished.
  Time next_deadline() const;
  std::optional<ParticipantOutput> poll();

  // Commands of the application that answer an event.
  /// Accepts the job. `state` contains, for the coordinator's application, the data that this member already
  /// has from an earlier attempt.
  void accept(Bytes state, Time now);
  /// Accepts the job if everything is already here under its final name. The root's application calls this
  /// function instead of accept(), and so the root becomes a source.
  void accept_whole(Time now);
  void blobs_made(Epoch epoch, const std::vector<PeerBlob>& blobs, Time now);
  void connected(Epoch epoch, Time now);
  /// Answers EndData. `state` contains the blocks that this member has, for the next epoch. `report` is set
  /// if the member has all blocks. `report` is then the argument that delivered() would get.
  void ended_state(Epoch epoch, Bytes state, std::optional<Bytes> report, Time now);
  void committed(Bytes report, Time now);
  void abort_done(Time now);

  // Commands of the application at any time.
  /// Reports that the data path has given up on a neighbour because of `cause`. For each epoch and rank, only
  /// the first call has an effect.
  void suspect(Epoch epoch, Rank rank, std::string_view cause, Time now);
  /// Reports the progress. `bytes_done` is the number of bytes of the whole job that this member has now. The
  /// application may call this function at any rate. At most four messages a second are sent.
  void progress(std::uint64_t bytes_done, Time now);
  /// Sets the wait of the epoch's data path, or nullopt if it waits for nothing. The coordinator is informed
  /// after the wait has lasted for kWaitTold, and again when it has ended. If this member is the source of
  /// the epoch, the wait is sent at each call. This shows the others that the source still has something to
  /// do.
  void waits(Epoch epoch, const std::optional<relay::Wait>& wait, Time now);
  /// Sets the members that delay the ring slots of the epoch's data path now. The application may call this
  /// function at any rate. Only changes are sent.
  void lags(Epoch epoch, std::vector<Rank> ranks, Time now);
  /// Reports that all bytes are here and verified. The coordinator compares `report` (the digest) with the
  /// expected report.
  void delivered(Epoch epoch, Bytes report, Time now);
  /// Reports that all bytes that this epoch sends are here, but that they are not the whole job. This happens
  /// only if the source of the epoch is not the root.
  void complete(Epoch epoch, Time now);
  /// Reports that this process has failed (disk full, interrupt, a data plane that cannot be created).
  /// Allowed in any phase. The application must clean up by itself, because Finished follows at once.
  void fail(Error cause, Time now);

  bool finished() const { return phase_ == Phase::finished; }
  /// True if the participant has no coordinator and is ready to follow the next one.
  bool is_orphan() const { return phase_ == Phase::orphaned; }
  const SessionId& session() const { return session_; }
  const ParticipantCounters& counters() const { return counters_; }

 private:
  enum class Phase : std::uint8_t {
    unconnected,
    greeting,   ///< Waits for Hello.
    offering,   ///< Waits for Job.
    deciding,   ///< Waits for the application's answer to the job.
    idle,       ///< There is no epoch: the first epoch is not formed yet, or Ended has been sent.
    blobs,      ///< Waits for the application's blobs.
    exchanged,  ///< Waits for Peers.
    joining,    ///< Waits for the application to connect its queue pairs.
    ready,      ///< Waits for Start.
    running,
    ending,    ///< Waits for the application's state.
    orphaned,  ///< The coordinator is lost, and there is no new coordinator yet.
    aborting,
    finished,
  };
  enum class Delivery : std::uint8_t { none, reported, committing, committed };

  void dispatch(const wire::Envelope& envelope, Time now);
  void on_job(const std::string& description, Time now);
  void on_hello(const wire::Hello& hello, Time now);
  void on_form(const wire::Form& form, Time now);
  void on_peers(const wire::Peers& peers, Time now);
  void on_start(Epoch epoch, Time now);
  void on_end(const wire::End& end, Time now);
  void on_commit(Time now);
  void on_expect(const std::string& report, Time now);
  void on_finish(Time now);
  void on_heartbeat(std::uint64_t advance, Time now);

  void excuse_absence(Time now);
  void send(const wire::Envelope& envelope, Time now);
  void send_accept(Time now);
  void send_progress(Time now);
  void enter(Phase phase, Time now);
  void broken_protocol(std::string_view what, Time now);
  void give_up(Error cause, Time now);

  // Defined in participant_orphaned.cpp.
  void become_orphan(Error cause, Time now);
  void lead();
  void end_orphan(Time now);
  bool on_takeover(const wire::Hello& hello, Time now);
  void accept_takeover(Time now);
  std::size_t turn() const;

  void leave(Error cause, bool coordinator_lost, Time now);
  void close();
  void finish(Status status, Error cause);
  bool stale(Epoch epoch);
  bool in_epoch() const { return phase_ >= Phase::blobs && phase_ <= Phase::running; }
  bool listening() const { return channel_open_ && phase_ > Phase::greeting; }
  bool has_joined() const { return channel_open_ && phase_ >= Phase::idle; }
  bool was_formed() const { return epoch_ > Epoch{0}; }
  /// Returns the time when the silence is first noticed. The coordinator counts as lost only if two checks
  /// have noticed the silence. The returned time is that of the first check.
  Time doubt_at() const { return last_heard_ + config_.timing.suspect_after - look_interval(config_.timing); }
  bool owes_progress() const { return phase_ == Phase::running && bytes_done_ > bytes_reported_; }
  void ignore() { ++counters_.ignored_commands; }
  Duration phase_timeout() const;

  ParticipantConfig config_;
  Phase phase_ = Phase::unconnected;
  Delivery delivery_ = Delivery::none;
  SessionId session_{};
  Epoch epoch_{0};
  Rank rank_{};
  MemberId self_{}, coordinator_ = kRoot;
  /// The members of the last epoch that was formed.
  std::vector<MemberInfo> members_;
  /// The members that had everything when that epoch was formed.
  std::vector<MemberInfo> holders_;
  /// True if the application was asked to end an epoch and has not answered.
  bool owes_state_ = false;
  /// The state that the application gave last.
  Bytes state_;
  std::optional<Bytes> report_, expected_;
  Time lead_at_ = Time::never();
  /// The time when this orphan gives up. Set until the next epoch is formed.
  Time orphan_until_ = Time::never();
  bool channel_open_ = false;
  /// True if the coordinator was lost while the application was committing. The application's answer is then
  /// the outcome.
  bool detached_ = false;
  /// The cause for which the job is being aborted.
  Error cause_{};
  Time last_heard_{}, last_sent_{}, last_progress_{}, looked_at_{};
  /// True if the last check found that the coordinator was silent for almost suspect_after.
  bool doubted_ = false;
  Time phase_deadline_ = Time::never();
  std::uint64_t bytes_done_ = 0, bytes_reported_ = 0, group_advance_ = 0;
  std::vector<Rank> suspected_;
  /// The newest wait of this epoch's data path.
  std::optional<relay::Wait> wait_;
  Time wait_since_{};
  bool wait_told_ = false;
  /// The members that were named in the last Lag message of this epoch.
  std::vector<Rank> lagging_;
  std::deque<ParticipantOutput> outputs_;
  ParticipantCounters counters_;
};

}  // namespace rdmc::session
