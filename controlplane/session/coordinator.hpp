// The coordinator of a group session, as a core: it has no socket, clock, thread or randomness. It guides
// every participant from the connection to one outcome. It forms the first epoch from the participants that
// accept the job. Whenever a member fails, it forms the next epoch from the survivors. The driver gives it
// messages, closed channels and the time, and must drain poll() after each call. The application answers the
// coordinator's events with the commands below. The coordinator owns all its data. Only one thread may use it
// at a time.
//
// The participant in the coordinator's own process is treated like the other participants. Its channel is
// inside the process. The application chooses the source of each epoch. The source is the root while the root
// is alive, and after that a survivor that has blocks that others lack.
//
// Every wait is limited by Timing. So JobFinished is emitted, whatever the participants do. README.md in this
// folder describes the phases, the judgement of suspicions, and the messages that arrive after their epoch
// has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "controlplane/session/types.hpp"
#include "dataplane/relay/wait.hpp"

namespace rdmc::session {

namespace wire {
class Envelope;
class Accept;
class Ended;
class Welcome;
class Blobs;
class Suspect;
class Wait;
class Lag;
}  // namespace wire

/// An epoch can be formed. The application must choose the parameters of the epoch, and call form() with this
/// epoch. If a candidate fails before that, this event is emitted again with a higher epoch.
struct ParametersNeeded {
  struct Candidate {
    MemberId member{};
    /// The state that the candidate gave to accept(), or later to ended_state().
    Bytes state;
    /// False if the candidate has all blocks. Then it can only be the source.
    bool lacks = true;
    /// True if the candidate's link is slower than those of the others, or if the candidate is far from the
    /// others.
    bool is_straggler = false;
  };
  Epoch epoch{};
  std::vector<Candidate> candidates;
};
/// The driver must connect to this participant, and call on_connected() or on_closed(). The event may be
/// emitted again after a CloseChannel. After that, the driver must not report the end of the old channel.
struct ConnectRequested {
  MemberId member{};
};
struct Progressed {
  MemberId member{};
  std::uint64_t bytes_done = 0;
};
/// A participant has all bytes, and they are correct. The coordinator has requested that it commits.
struct DeliveryReported {
  MemberId member{};
  Epoch epoch{};
};
/// A participant has its outcome. Each participant has exactly one outcome.
struct MemberFinished {
  MemberId member{};
  Status status = Status::failed;
  Error cause;   ///< Valid unless the status is ok.
  Bytes report;  ///< The report that the participant gave to committed(), if the status is ok.
};
/// The last event. Every participant has its outcome, and no channel is needed any more.
struct JobFinished {
  /// Set if the job was ended by interrupt() (its cause), or because the coordinator's application took too
  /// long.
  std::optional<Error> interrupted;
};

using CoordinatorOutput = std::variant<Send, CloseChannel, ConnectRequested, ParametersNeeded, Progressed,
                                       DeliveryReported, MemberFinished, JobFinished>;

struct CoordinatorCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  /// Messages of an epoch that has ended, and messages from a member that was removed.
  std::uint64_t late_messages = 0;
  /// Messages that were malformed, or that are not allowed in the current phase. Each of them removes its
  /// sender.
  std::uint64_t protocol_errors = 0;
  /// Commands that were ignored, because they did not fit any more. The application had not yet seen the
  /// event that made them useless.
  std::uint64_t ignored_commands = 0;
  std::uint64_t suspicions = 0, judgements = 0, stalls = 0, epochs = 0;
  /// Members that were found to be stragglers.
  std::uint64_t stragglers = 0;
};

class Coordinator {
 public:
  /// The ranks have the order of `participants`, unless form() gives another order.
  Coordinator(CoordinatorConfig config, std::vector<ParticipantSpec> participants);

  /// Starts to measure time, and emits a ConnectRequested for each participant.
  void start(Time now);

  // Inputs from the driver. `member` must be the member of one of the specs.
  void on_connected(MemberId member, Time now);
  /// Sets the address at which the member's control listener was found. Other members get this address,
  /// because they may not know the name that this process uses.
  void set_address(MemberId member, std::string address);
  /// Sets the round-trip time to this member, if the driver knows it. A member that is far from the others is
  /// a straggler from the first epoch on.
  void set_round_trip(MemberId member, Duration round_trip);
  void on_message(MemberId member, std::span<const std::byte> bytes, Time now);
  /// The driver must call this when the channel has ended, or when it could not be made. If `cause` is
  /// Errc::authentication and the member has not greeted yet, its outcome is `refused`.
  void on_closed(MemberId member, const Error& cause, Time now);
  void on_timer(Time now);
  /// Returns the time by which on_timer() must be called. Returns Time::never() after the job has finished.
  Time next_deadline() const;
  std::optional<CoordinatorOutput> poll();

  // Commands of the application that answer an event.
  /// Forms the epoch. `source` is the candidate that gets rank 0. `order` contains the candidates for the
  /// following ranks. Candidates that are not in `order` get the last ranks, in the order of the constructor.
  /// Members in `order` that are no candidates are ignored.
  void form(Epoch epoch, Bytes parameters, Time now, MemberId source = kRoot,
            const std::vector<MemberId>& order = {});

  // Commands of the application at any time.
  /// Sets the report that every Delivered must contain. The application must call it before the last block
  /// can reach a member. The participants keep the report in case this process dies.
  void expect_report(Bytes report, Time now);
  /// Returns the report that was set. After a failover, returns the report that the survivors know. Returns
  /// nullopt if the report is not known.
  const std::optional<Bytes>& expected_report() const { return expected_; }
  /// Ends the job with `cause` at all members that have not committed. The application calls this, for
  /// example, after Ctrl-C, if it cannot read the source, or if it cannot create a data plane. JobFinished
  /// follows within Timing::abort_timeout.
  void interrupt(Error cause, Time now);

  bool finished() const { return phase_ == Phase::finished; }
  /// True if the coordinator in the process of `other` has priority over this coordinator, and this
  /// coordinator has not begun to choose an epoch.
  bool stands_down_for(MemberId other) const { return phase_ <= Phase::joining && other < config_.leader; }
  const CoordinatorCounters& counters() const { return counters_; }

 private:
  enum class Phase : std::uint8_t {
    idle,        ///< Before start().
    joining,     ///< Waits for connections, greetings, and answers to the job.
    choosing,    ///< Waits for the application to choose the parameters of the next epoch.
    exchanging,  ///< Waits for blobs.
    connecting,  ///< Waits for Ready messages.
    running,
    ending,      ///< Waits for states.
    completing,  ///< No further epoch follows. Waits until commits and aborts are done.
    finished,
  };
  enum class Standing : std::uint8_t { unconnected, greeting, deciding, active, aborting, gone };
  enum class Delivery : std::uint8_t { none, reported, committing, committed };
  /// How the coordinator ends its contact with a member that is lost.
  enum class Parting : std::uint8_t {
    /// The channel is closed already.
    gone,
    /// Close the channel, because the member has sent its last message.
    close,
    /// Send the cause and close the channel without waiting, because the member is silent or cannot be
    /// trusted.
    dismiss,
    /// Send the cause and wait for AbortDone.
    abort,
  };

  /// The wait that a member's data path has reported. `since` is the time of the report. `blamed_since` is
  /// the time since which the awaited member has had no excuse.
  struct ToldWait {
    relay::Wait wait;
    Time since{}, blamed_since{};
  };
  /// A member's report that another member delays its ring. `since` is the time when this was first reported.
  /// `over` is the time when the member withdrew the report.
  struct ToldLag {
    Rank rank{};
    Time since{};
    std::optional<Time> over;
  };
  struct Member {
    ParticipantSpec spec;
    Standing standing = Standing::unconnected;
    Delivery delivery = Delivery::none;
    /// True while the member is in epoch_. Stays true after the end of the epoch, until the next epoch is
    /// formed. If the member is lost in this time, the other members are informed.
    bool in_epoch = false;
    /// True if the member has not yet given the answer that this phase needs: blobs, Ready or state.
    bool owes = false;
    /// True if the member has all blocks that this epoch sends. It may still lack other blocks.
    bool complete = false;
    bool has_outcome = false;
    Rank rank{};
    Time last_heard{}, last_sent{};
    /// The time by which the member must have done the action that `due` names.
    Time deadline = Time::never();
    std::string_view due;
    /// The time by which the member must have done the action that `commit_due` names.
    Time commit_by = Time::never();
    std::string_view commit_due;
    /// The time limit for all attempts to connect, and the time of the next attempt.
    Time connect_by{}, connect_at = Time::never();
    /// True if the member's last answer was that it follows another coordinator.
    bool follows_another = false;
    /// The time when the member was probed in this epoch.
    std::optional<Time> probed;
    /// The nonce of an unanswered probe. 0 if there is none.
    std::uint64_t probe_due = 0;
    std::uint64_t bytes_done = 0;
    /// The value of bytes_done when this epoch started.
    std::uint64_t bytes_before = 0;
    std::optional<ToldWait> wait;  ///< The last wait that the member reported in this epoch.
    std::vector<ToldLag> lags;     ///< The lags that the member reported in this epoch.
    std::optional<Duration> round_trip;
    bool is_straggler = false;
    /// The time since which the member has sent no Wait and has gained fewer than kLeastGain bytes.
    /// `quiet_bytes` is the number of bytes that it had at that time.
    Time quiet_since{};
    std::uint64_t quiet_bytes = 0;
    /// True if the member has already been spared once. A member that has delivered, or that has all blocks
    /// that the epoch sends, is not lost when other members wait for it for the first time. Then only the
    /// epoch ends.
    bool spared = false;
    /// The number of messages by which the member was above the allowed rate at `last_counted` (a leaky
    /// bucket).
    double messages_ahead = 0;
    Time last_counted{};
    Bytes state;
    Bytes report;
    /// The blobs that other members have made for this member.
    std::vector<PeerBlob> inbox;
  };
  struct Suspicion {
    Rank observer{}, suspect{};
    std::string cause;
    /// Returns the member that the suspicion counts against, which is usually the suspect. The source cannot
    /// be left out of an epoch, so a suspicion of the source counts against the observer.
    Rank accused() const { return suspect == kRootRank ? observer : suspect; }
  };

  // Defined in coordinator.cpp: dispatch, sending, and removal of members.
  void dispatch(Member& member, const wire::Envelope& envelope, Time now);
  void send(Member& member, const wire::Envelope& envelope, Time now);
  void send_abort(Member& member, const Error& cause, Time now);
  void broadcast(const wire::Envelope& envelope, Time now);
  void close(Member& member);
  void lose(Member& member, Error cause, Parting parting, Time now);
  void on_failed(Member& member, Error cause, Time now);
  void broken_protocol(Member& member, std::string_view what, Time now);
  void conclude(Member& member, Status status, Error cause, Bytes report);
  void expect(Member& member, std::string_view due, Duration within, Time now);
  void expect_commit(Member& member, std::string_view due, Duration within, Time now);
  void settle(Member& member);
  void advance(Time now);
  bool step(Time now);
  bool stale(Epoch epoch);
  void ignore() { ++counters_.ignored_commands; }
  Member* find(MemberId member);
  Member* at(Rank rank);
  bool ready_in_epoch() const;
  bool is_wanting() const;
  /// True if no member of this coordinator has been in an epoch yet.
  bool is_new_job() const { return candidate_ == Epoch{0}; }

  // Defined in coordinator_timers.cpp.
  void excuse_absence(Time now);
  bool is_due(Time deadline, Time now) const;
  void beat(Time now);
  void check_member(Member& member, Time now);
  void check_phase(Time now);
  Duration tick() const;

  // Defined in coordinator_joining.cpp.
  void on_welcome(Member& member, const wire::Welcome& welcome, Time now);
  void on_accept(Member& member, const wire::Accept& accept, Time now);
  void on_refused(Member& member, Error cause, Time now);
  bool is_left_out() const;

  // Defined in coordinator_forming.cpp.
  void choose(Time now);
  void on_blobs(Member& member, const wire::Blobs& blobs, Time now);
  void on_ready(Member& member, Epoch epoch, Time now);
  void route_blobs(Time now);
  void start_epoch(Time now);

  // Defined in coordinator_running.cpp.
  void on_complete(Member& member, Epoch epoch, Time now);
  void on_progress(Member& member, Epoch epoch, std::uint64_t bytes_done, Time now);
  void on_suspect(Member& member, const wire::Suspect& suspect, Time now);
  void on_probe_answer(Member& member, std::uint64_t nonce);
  void add_suspicion(Rank observer, Rank suspect, std::string cause, Time now);
  void probe(Rank rank, Time now);
  void judge(Time now);
  const Suspicion* worst_suspicion();
  const std::string& name_of(Rank rank) const;

  // Defined in coordinator_stall.cpp.
  bool floods(Member& member, Time now);
  void begin_watch(Time now);
  void on_wait(Member& member, const wire::Wait& wait, Time now);
  void end_stall(Time now);
  void lay_blame(Rank observer, const ToldWait& told, Time now);
  void lose_quiet(Time now);
  bool says_why(const Member& member, Time now) const;
  bool is_source_quiet(Time now);
  bool is_excused(Rank observer, const ToldWait& told, Time now);
  std::optional<std::pair<Rank, ToldWait>> earliest_wait(Duration age, Time now);
  void forgive(Rank excused, Time now);

  // Defined in coordinator_stragglers.cpp.
  void on_lag(Member& member, const wire::Lag& lag, Time now);
  static std::optional<Time> held_up_since(const Member& member, Time now);
  void find_stragglers(Time now);
  void find_far();
  Duration lag_of_a_straggler() const;
  static bool lacks(const Member& member);
  bool is_worthwhile(std::span<Member* const> found, Time now) const;

  // Defined in coordinator_ending.cpp.
  void end_epoch(Time now);
  void name_failures(Time now);
  void on_ended(Member& member, const wire::Ended& ended, Time now);

  // Defined in coordinator_committing.cpp.
  void take_report(Member& member, std::string_view report, Time now);
  void judge_report(Member& member, Time now);
  void tell_expected(Time now);
  void on_delivered(Member& member, Epoch epoch, std::string_view report, Time now);
  void on_committed(Member& member, std::string_view report, Time now);
  void release_committed(Time now);

  CoordinatorConfig config_;
  std::vector<Member> members_;
  /// Maps a member's number to its position in members_.
  std::unordered_map<std::uint32_t, std::size_t> index_;
  /// Maps a rank in epoch_ to the member's position in members_.
  std::vector<std::size_t> by_rank_;
  Phase phase_ = Phase::idle;
  /// The last epoch that was formed.
  Epoch epoch_{0};
  /// The time when the data path of epoch_ was started.
  Time epoch_began_{};
  /// The newest epoch for which the application was asked for parameters. It only grows.
  Epoch candidate_{0};
  /// True if a candidate was lost after the application was asked for the parameters.
  bool choose_again_ = false;
  /// The time by which the application must have chosen the parameters.
  Time choose_by_ = Time::never();
  Time judge_at_ = Time::never();
  Time swept_at_{}, next_sweep_ = Time::never();
  std::vector<Suspicion> suspicions_;
  /// The members that were lost from epoch_ and have not yet been named to the other members.
  std::vector<FailedMember> unnamed_;
  std::uint64_t next_nonce_ = 1;
  /// Grows whenever any member makes progress. Heartbeats contain this number.
  std::uint64_t advance_ = 0;
  std::optional<Error> interrupted_;
  std::optional<Bytes> expected_;
  std::deque<CoordinatorOutput> outputs_;
  CoordinatorCounters counters_;
};

}  // namespace rdmc::session
