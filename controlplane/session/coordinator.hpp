// The coordinating end of a group session as a pure state machine: no socket, clock, thread or randomness. It
// brings every participant from its connection to one outcome, forms an epoch from those that accept the job,
// and a successor from the survivors whenever one fails. The driver feeds it messages, closes and time and
// drains poll() after each call; the application answers its events with the commands below. It owns all it
// keeps; one thread at a time.
//
// The member of its own process is a participant like the others, over a channel within the process. Each
// epoch has the source that the application chooses: the root while the root lives, and then whoever of the
// survivors has blocks that others lack.
//
// Every wait is bounded by Timing, so JobFinished comes whatever the participants do. docs: README.md beside
// this file has the phases, the rule by which a suspicion is judged, and what happens to messages that cross.
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

/// An epoch can be formed: choose its parameters and answer form() with this epoch. Asked anew, with a higher
/// epoch, when a candidate fails before the answer.
struct ParametersNeeded {
  struct Candidate {
    MemberId member{};
    Bytes state;                ///< from its accept(), later its ended_state()
    bool lacks = true;          ///< false: it is whole and can only be the source
    bool is_straggler = false;  ///< its link is slower than the others', or it is far from them
  };
  Epoch epoch{};
  std::vector<Candidate> candidates;
};
/// Connect to this participant; on_connected() or on_closed() follows. Asked again after a CloseChannel, of
/// which then no on_closed() may come any more.
struct ConnectRequested {
  MemberId member{};
};
struct Progressed {
  MemberId member{};
  std::uint64_t bytes_done = 0;
};
/// A participant has all bytes, and they are right: it is told to commit.
struct DeliveryReported {
  MemberId member{};
  Epoch epoch{};
};
/// The one outcome of a participant.
struct MemberFinished {
  MemberId member{};
  Status status = Status::failed;
  Error cause;   ///< unless ok
  Bytes report;  ///< of its committed(), if ok
};
/// The last event: every participant has its outcome and no channel is needed any more.
struct JobFinished {
  std::optional<Error>
      interrupted;  ///< the cause given to interrupt(), or that our application did not answer
};

using CoordinatorOutput = std::variant<Send, CloseChannel, ConnectRequested, ParametersNeeded, Progressed,
                                       DeliveryReported, MemberFinished, JobFinished>;

struct CoordinatorCounters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t late_messages = 0;     ///< of an epoch that is over, or from a member that is out
  std::uint64_t protocol_errors = 0;   ///< malformed or out of phase: each ends that member
  std::uint64_t ignored_commands = 0;  ///< overtaken by an event
  std::uint64_t suspicions = 0, judgements = 0, stalls = 0, epochs = 0;
  std::uint64_t stragglers = 0;  ///< found
};

class Coordinator {
 public:
  /// Ranks follow the order of `participants`, unless form() says otherwise.
  Coordinator(CoordinatorConfig config, std::vector<ParticipantSpec> participants);

  /// Starts the clock and asks for the connections.
  void start(Time now);

  // The driver's side. `member` is one of the specs'.
  void on_connected(MemberId member, Time now);
  /// Where its control listener was found: others may not know the name that it has here.
  void set_address(MemberId member, std::string address);
  /// What bytes take to this member and back, as far as the driver knows. A member that is far from the
  /// others is a straggler from the beginning.
  void set_round_trip(MemberId member, Duration round_trip);
  void on_message(MemberId member, std::span<const std::byte> bytes, Time now);
  /// The channel is gone, or could not be made. Errc::authentication before the job makes the outcome
  /// `refused`.
  void on_closed(MemberId member, const Error& cause, Time now);
  void on_timer(Time now);
  /// When on_timer() must be called at the latest; Time::never() once finished.
  Time next_deadline() const;
  std::optional<CoordinatorOutput> poll();

  // The application's side: answers to events.
  /// `source`: the candidate that is rank 0. `order`: candidates in the order of their ranks behind it; those
  /// it does not name follow in theirs, others that it names do not count.
  void form(Epoch epoch, Bytes parameters, Time now, MemberId source = kRoot,
            const std::vector<MemberId>& order = {});

  // … and unasked.
  /// What every Delivered must say; once it is known, and before the last block can reach anybody. The
  /// participants keep it for the case of our death.
  void expect_report(Bytes report, Time now);
  /// The same, or what the survivors know of it after a takeover.
  const std::optional<Bytes>& expected_report() const { return expected_; }
  /// Ends the job with `cause` everywhere but where it is committed: Ctrl-C, an unreadable source, a data
  /// plane that cannot be made. JobFinished follows within Timing::abort_timeout.
  void interrupt(Error cause, Time now);

  bool finished() const { return phase_ == Phase::finished; }
  /// `other`, who coordinates as well, has the better right to it, and nothing is begun here yet.
  bool stands_down_for(MemberId other) const { return phase_ <= Phase::joining && other < config_.leader; }
  const CoordinatorCounters& counters() const { return counters_; }

 private:
  enum class Phase : std::uint8_t {
    idle,        ///< before start()
    joining,     ///< connections, greetings, answers to the job
    choosing,    ///< the application owes the parameters of the next epoch
    exchanging,  ///< blobs are due
    connecting,  ///< readiness is due
    running,
    ending,      ///< states are due
    completing,  ///< no further epoch: commits and aborts are due
    finished,
  };
  enum class Standing : std::uint8_t { unconnected, greeting, deciding, active, aborting, gone };
  enum class Delivery : std::uint8_t { none, reported, committing, committed };
  /// How we part with a member that is lost.
  enum class Parting : std::uint8_t {
    gone,     ///< the channel is closed
    close,    ///< it has said its last word
    dismiss,  ///< tell it why, close without waiting: it is silent, or not to be trusted
    abort,    ///< tell it why and wait for AbortDone
  };

  /// What a data path waits for, since when, and since when without an excuse.
  struct ToldWait {
    relay::Wait wait;
    Time since{}, blamed_since{};
  };
  /// A member has said that another one holds up its ring: since when, and when it took that back.
  struct ToldLag {
    Rank rank{};
    Time since{};
    std::optional<Time> over;
  };
  struct Member {
    ParticipantSpec spec;
    Standing standing = Standing::unconnected;
    Delivery delivery = Delivery::none;
    bool in_epoch = false;  ///< of epoch_, until the next is formed; its loss is named to the others
    bool owes = false;      ///< this phase's answer: blobs, readiness, state
    bool complete = false;  ///< has what this epoch sends, though it may lack more
    bool has_outcome = false;
    Rank rank{};
    Time last_heard{}, last_sent{};
    Time deadline = Time::never();  ///< of what `due` says
    std::string_view due;
    Time commit_by = Time::never();  ///< of what `commit_due` says
    std::string_view commit_due;
    Time connect_by{}, connect_at = Time::never();  ///< bound of all attempts; the next one
    bool follows_another = false;                   ///< said so when it was last asked
    std::optional<Time> probed;                     ///< in this epoch
    std::uint64_t probe_due = 0;                    ///< nonce of an unanswered probe; 0: none
    std::uint64_t bytes_done = 0;
    std::uint64_t bytes_before = 0;  ///< when this epoch started
    std::optional<ToldWait> wait;    ///< in this epoch
    std::vector<ToldLag> lags;       ///< in this epoch
    std::optional<Duration> round_trip;
    bool is_straggler = false;
    Time quiet_since{};  ///< neither a wait nor a gain worth the name since then
    std::uint64_t quiet_bytes = 0;
    bool spared = false;        ///< has held up others once when it had all that its epoch sent
    double messages_ahead = 0;  ///< of what it should have said by last_counted
    Time last_counted{};
    Bytes state;
    Bytes report;
    std::vector<PeerBlob> inbox;  ///< blobs that the others made for it
  };
  struct Suspicion {
    Rank observer{}, suspect{};
    std::string cause;
    /// Whom it speaks against: the source cannot be left out.
    Rank accused() const { return suspect == kRootRank ? observer : suspect; }
  };

  // coordinator.cpp: dispatch, sending, losing members
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
  /// Nobody here has been in an epoch yet.
  bool is_new_job() const { return candidate_ == Epoch{0}; }

  // coordinator_timers.cpp
  void excuse_absence(Time now);
  bool is_due(Time deadline, Time now) const;
  void beat(Time now);
  void check_member(Member& member, Time now);
  void check_phase(Time now);
  Duration tick() const;

  // coordinator_joining.cpp
  void on_welcome(Member& member, const wire::Welcome& welcome, Time now);
  void on_accept(Member& member, const wire::Accept& accept, Time now);
  void on_refused(Member& member, Error cause, Time now);
  bool is_left_out() const;

  // coordinator_forming.cpp
  void choose(Time now);
  void on_blobs(Member& member, const wire::Blobs& blobs, Time now);
  void on_ready(Member& member, Epoch epoch, Time now);
  void route_blobs(Time now);
  void start_epoch(Time now);

  // coordinator_running.cpp
  void on_complete(Member& member, Epoch epoch, Time now);
  void on_progress(Member& member, Epoch epoch, std::uint64_t bytes_done, Time now);
  void on_suspect(Member& member, const wire::Suspect& suspect, Time now);
  void on_probe_answer(Member& member, std::uint64_t nonce);
  void add_suspicion(Rank observer, Rank suspect, std::string cause, Time now);
  void probe(Rank rank, Time now);
  void judge(Time now);
  const Suspicion* worst_suspicion();
  const std::string& name_of(Rank rank) const;

  // coordinator_stall.cpp
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

  // coordinator_stragglers.cpp
  void on_lag(Member& member, const wire::Lag& lag, Time now);
  static std::optional<Time> held_up_since(const Member& member, Time now);
  void find_stragglers(Time now);
  void find_far();
  static bool lacks(const Member& member);
  bool is_worthwhile(std::span<Member* const> found, Time now) const;

  // coordinator_ending.cpp
  void end_epoch(Time now);
  void name_failures(Time now);
  void on_ended(Member& member, const wire::Ended& ended, Time now);

  // coordinator_committing.cpp
  void take_report(Member& member, std::string_view report, Time now);
  void judge_report(Member& member, Time now);
  void tell_expected(Time now);
  void on_delivered(Member& member, Epoch epoch, std::string_view report, Time now);
  void on_committed(Member& member, std::string_view report, Time now);
  void release_committed(Time now);

  CoordinatorConfig config_;
  std::vector<Member> members_;
  std::unordered_map<std::uint32_t, std::size_t> index_;  ///< member id -> position in members_
  std::vector<std::size_t> by_rank_;                      ///< rank -> position in members_, of epoch_
  Phase phase_ = Phase::idle;
  Epoch epoch_{0};                  ///< the last one formed …
  Time epoch_began_{};              ///< … and when its data path started
  Epoch candidate_{0};              ///< the one whose parameters are asked for; only grows
  bool choose_again_ = false;       ///< a candidate was lost while our application chooses
  Time choose_by_ = Time::never();  ///< our application owes the parameters until then
  Time judge_at_ = Time::never();
  Time swept_at_{}, next_sweep_ = Time::never();
  std::vector<Suspicion> suspicions_;
  std::vector<FailedMember> unnamed_;  ///< lost from epoch_, not yet told to the others
  std::uint64_t next_nonce_ = 1;
  std::uint64_t advance_ = 0;  ///< grows whenever anybody gets further; told in heartbeats
  std::optional<Error> interrupted_;
  std::optional<Bytes> expected_;
  std::deque<CoordinatorOutput> outputs_;
  CoordinatorCounters counters_;
};

}  // namespace rdmc::session
