// The receiving end of a group session as a pure state machine: no socket, clock, thread or randomness. The
// driver feeds it messages, closes and time and drains poll() after each call; the application answers its
// events with the commands below, at once or later. It owns all it keeps; one thread at a time.
//
// Exactly one Finished ends it, whatever the coordinator does. A command that no longer fits (its epoch is
// over, the job is being aborted) is ignored, because the application may have been overtaken by an event it
// has not seen.
//
// A participant that loses its coordinator once an epoch has been formed is an orphan: it ends the epoch,
// keeps what it holds for Timing::orphan_timeout, and follows the first survivor that greets it with the same
// session. When its own turn comes first, it asks its driver to lead: to run a Coordinator in which it is one
// of the participants.
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

/// Answer accept() or fail() within Timing::job_timeout.
struct JobOffered {
  SessionId session{};
  Bytes description;
};
/// The report was right: make the file durable, rename it, answer committed() or fail(). From here on the
/// commit stands whatever happens to the coordinator. The data plane goes on: others may still need our
/// blocks.
struct CommitRequested {};
/// Orphaned, and nobody of a lower number has led on in time: run a Coordinator of these. Our own participant
/// is one of them; its channel may be a queue in the process.
struct LeadRequested {
  CoordinatorConfig config;
  std::vector<ParticipantSpec> participants;
};
/// Stop the data plane, remove what is unfinished, answer abort_done(). Nothing but Finished follows, with
/// the cause.
struct AbortRequested {};
/// The last event. Stop whatever still runs. `cause` is meaningful unless status is ok.
struct Finished {
  Status status = Status::failed;
  Error cause;
};

using ParticipantOutput =
    std::variant<Send, CloseChannel, JobOffered, FormRequested, PeersReady, StartData, EndData, AlsoFailed,
                 CommitRequested, LeadRequested, AbortRequested, Finished>;

struct ParticipantConfig {
  std::string agent;  ///< program and version, for the coordinator's reports
  Timing timing;      ///< heartbeat_interval and suspect_after are overruled by the coordinator's Hello
};

struct ParticipantCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t late_messages = 0;     ///< of an epoch that is over, or after the end
  std::uint64_t protocol_errors = 0;   ///< malformed or out of phase: each ends the job here
  std::uint64_t ignored_commands = 0;  ///< overtaken by an event
  std::uint64_t orphaned = 0;          ///< a coordinator was lost, and what is held was kept for the next
};

class Participant {
 public:
  explicit Participant(ParticipantConfig config);

  // The driver's side.
  /// A channel to the coordinator; once more when is_orphan() and a survivor that leads on has connected.
  void on_connected(Time now);
  void on_message(std::span<const std::byte> bytes, Time now);
  /// The control channel is gone, by the peer or the network.
  void on_closed(const Error& cause, Time now);
  void on_timer(Time now);
  /// When on_timer() must be called at the latest; Time::never() once finished.
  Time next_deadline() const;
  std::optional<ParticipantOutput> poll();

  // The application's side: answers to events.
  void accept(Bytes state,
              Time now);  ///< `state`: what is held already (resume), for the coordinator's application
  /// Instead: all is here already, under its final name. The root's own answer, which makes it a source.
  void accept_whole(Time now);
  void blobs_made(Epoch epoch, const std::vector<PeerBlob>& blobs, Time now);
  void connected(Epoch epoch, Time now);
  /// `state`: which blocks are held, for the successor; `report`: what delivered() would say, if all are.
  void ended_state(Epoch epoch, Bytes state, std::optional<Bytes> report, Time now);
  void committed(Bytes report, Time now);
  void abort_done(Time now);

  // … and unasked.
  /// The data path gave up on a neighbour, for `cause` (said once per epoch and rank; repetitions are
  /// dropped).
  void suspect(Epoch epoch, Rank rank, std::string_view cause, Time now);
  /// Bytes of the whole job held so far; any rate of calls, at most four messages a second.
  void progress(std::uint64_t bytes_done, Time now);
  /// What the data path of the epoch waits for now. A wait is told when it has lasted for a second, and when
  /// it is over; but a source says at each call that it waits, since that shows the others that it has
  /// something left to do.
  void waits(Epoch epoch, const std::optional<relay::Wait>& wait, Time now);
  /// Who hold up the slots of the epoch's data path now. Any rate of calls; only changes are told.
  void lags(Epoch epoch, std::vector<Rank> ranks, Time now);
  /// All bytes are here and verified; `report` is what the coordinator's application compares (the digest).
  void delivered(Epoch epoch, Bytes report, Time now);
  /// All bytes that this epoch sends are here, which is not all that there are: it had another source than
  /// the root.
  void complete(Epoch epoch, Time now);
  /// Our own failure (disk full, interrupt, a data plane that cannot be made), in any phase. The application
  /// cleans up by itself: Finished follows at once.
  void fail(Error cause, Time now);

  bool finished() const { return phase_ == Phase::finished; }
  /// Without a coordinator, and ready to follow the next.
  bool is_orphan() const { return phase_ == Phase::orphaned; }
  const SessionId& session() const { return session_; }
  const ParticipantCounters& counters() const { return counters_; }

 private:
  enum class Phase : std::uint8_t {
    unconnected,
    greeting,   ///< Hello is due
    offering,   ///< Job is due
    deciding,   ///< the application owes its answer to the job
    idle,       ///< no epoch: before the first, or Ended has been sent
    blobs,      ///< the application owes its blobs
    exchanged,  ///< Peers is due
    joining,    ///< the application owes its readiness
    ready,      ///< Start is due
    running,
    ending,    ///< the application owes its state
    orphaned,  ///< the coordinator is lost, and nobody leads on yet
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

  // participant_orphaned.cpp
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
  /// The first of the two looks that make a silence count.
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
  std::vector<MemberInfo> members_;  ///< of the last epoch formed
  std::vector<MemberInfo> holders_;  ///< that had everything by then
  bool owes_state_ = false;          ///< the application was told to end an epoch
  Bytes state_;                      ///< what it said last
  std::optional<Bytes> report_, expected_;
  Time lead_at_ = Time::never();
  Time orphan_until_ = Time::never();  ///< set until a successor epoch is formed
  bool channel_open_ = false;
  bool detached_ = false;  ///< the coordinator went while our application commits: its answer is the outcome
  Error cause_{};          ///< why we are aborting
  Time last_heard_{}, last_sent_{}, last_progress_{}, looked_at_{};
  bool doubted_ = false;  ///< the last look found the coordinator silent for nearly too long
  Time phase_deadline_ = Time::never();
  std::uint64_t bytes_done_ = 0, bytes_reported_ = 0, group_advance_ = 0;
  std::vector<Rank> suspected_;
  std::optional<relay::Wait> wait_;  ///< of this epoch's data path
  Time wait_since_{};
  bool wait_told_ = false;
  std::vector<Rank> lagging_;  ///< as it was told in this epoch
  std::deque<ParticipantOutput> outputs_;
  ParticipantCounters counters_;
};

}  // namespace rdmc::session
