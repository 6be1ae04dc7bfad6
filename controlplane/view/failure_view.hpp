// One process's part in the failure view of a group. It reports which processes it hears, and receives the
// reports of the others. When they agree that a member is gone or that a joiner can be let in, one of them
// proposes the next view to the store. The view is what the store has accepted, and no process acts on
// anything else. A state machine without I/O: messages, answers of the store and the time go in, and poll()
// returns the outputs. It owns what it keeps; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <variant>

#include "controlplane/view/judgement.hpp"
#include "controlplane/view/leases.hpp"
#include "controlplane/view/listening.hpp"
#include "controlplane/view/local_time.hpp"
#include "controlplane/view/messages.hpp"
#include "controlplane/view/suspicion.hpp"
#include "controlplane/view/view_store.hpp"

namespace rdmc::view {

enum class RequestId : std::uint64_t {};

/// The path that a message takes. A process on the path of a data path that is not encrypted can forge
/// messages there.
enum class Way : std::uint8_t {
  /// Over the data path, so that the message also shows that the data path works. Over the control channel
  /// while there is no data path.
  data_path,
  authenticated,  ///< Over the control channel, or over an encrypted data path.
  /// Over the data path. If the data path is not encrypted, the message is also sent over the control
  /// channel.
  both,
};
/// Send the message to each of these control listeners. The message may be lost, delayed or duplicated.
struct Transmit {
  std::vector<Address> to;
  Bytes message;
  Way way = Way::data_path;
};
/// Ask the store. The driver must answer ReadStore with on_read, and SwapStore with on_swapped.
struct ReadStore {
  RequestId request{};
  StoreEntry entry{};
};
struct SwapStore {
  RequestId request{};
  View next;
  StoreEntry entry{};
};
/// Take in everything that has arrived by now, on every thread and from every socket. Then call on_listened.
/// No silence counts until the driver has called it.
struct Listen {
  RequestId request{};
};
/// Find out which process listens now at this address of a member, and call on_listener. The next question
/// about the same member comes after Timing::ask_listener_again at the earliest. An answer to this question
/// does not count after that.
struct AskListener {
  RequestId request{};
  Address address;
};
/// This view is agreed and contains this process, and the epoch before has ended here. The driver must
/// destroy that epoch's queue pairs to members that are not in this view, and revoke that epoch's grants and
/// keys.
struct Installed {
  View view;
};
/// This view is agreed and does not contain this process. This is the last output. A process that wants to
/// come back must join as a new member.
struct Removed {
  View view;
};
/// The store cannot be reached. The current view stays, and cannot change until StoreFound.
struct StoreLost {
  Error cause;
};
struct StoreFound {};
/// The member link to that member has been bad for Timing::unreachable_after. The member stays in the view,
/// because most others reach it or because the view cannot change. Either Reachable follows, or a view
/// without the member.
struct Unreachable {
  MemberId member{};
  bool heard = false;  ///< True if its statuses arrive here.
  /// True if, according to its last status, this process's statuses arrive there.
  bool hears_us = false;
};
struct Reachable {
  MemberId member{};
};
/// The view of this epoch is installed, and no process holds a lease any more with which it could serve in an
/// earlier view. This follows each Installed, at once or when the leases have ended.
struct EarlierLeasesOver {
  Epoch epoch{};
};
/// This process has gained its own lease, or has lost it. See FailureView::lease_until.
struct LeaseGained {};
struct LeaseLost {};
using Output =
    std::variant<Transmit, ReadStore, SwapStore, Installed, Removed, StoreLost, StoreFound, Unreachable,
                 Reachable, Listen, AskListener, EarlierLeasesOver, LeaseGained, LeaseLost>;

/// The sender of a message, as its link knows it. The content of the message does not matter for that.
struct Speaker {
  MemberId id{};
  Address address;                ///< The address of its control listener.
  bool is_authenticated = false;  ///< True if the message came as Way::authenticated requires.
};

class FailureView {
 public:
  enum class State : std::uint8_t { joining, member, removed };

  struct Counters {
    std::uint64_t proposals = 0,
                  conflicts = 0;  ///< A conflict: another process's proposal was accepted first.
    std::uint64_t suspicions = 0, recoveries = 0;
    std::uint64_t unreachable = 0;          ///< Bad links to members that stayed. See Unreachable.
    std::uint64_t malformed = 0, late = 0;  ///< Malformed messages, and statuses after a later one.
    std::uint64_t store_failures = 0;
    std::uint64_t claims = 0,
                  answers = 0;          ///< Liveness queries that this process has written, and has answered.
    std::uint64_t leases_lost = 0;      ///< Lost leases of this process. See LeaseLost.
    std::uint64_t listeners_asked = 0;  ///< See AskListener.
    /// Address claims that were not confirmed: the joiner did not answer at the address, or the member has
    /// been heard since the question.
    std::uint64_t address_claims_denied = 0;
    /// Another view with the epoch of the current one was seen. Only a broken store makes this more than 0.
    std::uint64_t disagreements = 0;
  };

  /// `self.since` is ignored. With the first input, the process begins to join the group or to form it.
  FailureView(Member self, const Timing& timing);

  // Inputs. `clock` is the time on the driver's clock. If there are leases, this clock must be
  // CLOCK_BOOTTIME: it never jumps, and its rate is right within kClockDrift. Without leases the clock may
  // jump. Inputs have no effect after this process has been removed.
  void start(Time clock) { on_timer(clock); }
  /// A message that is not authenticated grants and ends no lease, brings no view, and introduces no joiner.
  /// Errors: protocol_error if the message is malformed or names another sender. Such a message has no
  /// effect.
  Result<void> on_message(std::span<const std::byte> bytes, const Speaker& from, Time clock);
  void on_read(RequestId request, Result<View> result, Time clock);
  void on_swapped(RequestId request, Result<SwapResult> result, Time clock);
  /// The store's watch reports that the view may have changed. `epoch` is the new epoch, if the store knows
  /// it.
  void on_hint(std::optional<Epoch> epoch, Time clock);
  /// Everything that had arrived when poll() returned that Listen has now been given to on_message.
  void on_listened(RequestId request, Time clock);
  /// That process is certainly dead: its exit was seen by this process, on the same host. Only an exit that
  /// was seen shortens the wait for its lease.
  void on_exited(MemberId member, Time clock);
  /// That process must be removed, because an operator wants it or because there is a sign of its death. This
  /// does not shorten the wait for its lease.
  void on_gone(MemberId member, Time clock);
  /// The address of that process refused a connection. `had_connection` is true if this process had a
  /// connection to that very process until now. In that case a member counts the process as gone. In all
  /// other cases the refusal only makes a bad link, because a firewall also refuses connections.
  void on_refused(MemberId member, bool had_connection, Time clock);
  /// The answer to that AskListener: the process that listens at the address, if it is connected to this
  /// process and has proved its identity. nullopt if another process answered, or none.
  void on_listener(RequestId request, std::optional<MemberId> listener, Time clock);
  /// The data path to that member gave up in that epoch, because the retries of its RC connection are
  /// exhausted.
  void on_path_failed(MemberId member, Epoch epoch, Time clock);
  /// Removes a member on the operator's command. Errors: invalid_argument if this process is no member,
  /// not_found if the view does not contain the member, peer_failed if the store cannot be reached.
  Result<void> remove(MemberId member, Time clock);
  /// Leaves the group. Removed follows when the others have agreed. If this process is no member, Removed
  /// follows at once. But if this process has proposed a view that contains it, Removed follows only after
  /// the store has answered or its time limit has passed.
  void leave(Time clock);
  void on_timer(Time clock);
  /// The time of the next on_timer, on the driver's clock.
  Time next_deadline() const;
  std::optional<Output> poll();

  State state() const { return state_; }
  const Member& self() const { return self_; }
  /// The newest view that is known to be agreed. While joining, it does not contain this process.
  const View& view() const { return view_; }
  /// The fence: true if a message that `from` sent in `epoch` may have an effect here.
  bool admits(Epoch epoch, MemberId from) const;
  /// The end of this process's lease, on the driver's clock. Before it, no process serves in a later view
  /// than this one's. The caller must compare it with the clock whenever it serves. Time{} if this process
  /// holds no lease.
  Time lease_until() const;
  /// From this time on, no process serves in an earlier view than the current one. So this process may serve
  /// what the current view gives to it. Time::never() while this process is no member.
  Time takeover_at() const;
  bool store_reachable() const { return reachable_; }
  const Counters& counters() const { return counters_; }
  /// The suspicion level (phi) of a member. 0 for non-members and for this process itself.
  double level(MemberId member) const;
  /// False between Unreachable and Reachable for that member.
  bool reaches(MemberId member) const;

 private:
  struct Peer {
    Member member;
    Suspicion suspicion;
    bool said_anything = false;
    bool silent = false;  ///< True if it is suspected because of its silence.
    /// Until this listening time the peer counts as only just heard again after a long silence.
    Time recovered_at{};
    Time path_failed_until{};
    /// The time since which the link to this member of the current view has been bad.
    Time link_bad_since = Time::never();
    bool unreachable = false;  ///< True if the bad link has been reported.
    Status status;
  };
  struct Pending {
    RequestId request{};
    Time deadline{};
    /// The epoch of the view when the request was sent. A store that shows an older one has lost data.
    Epoch known{};
    Time asked{};  ///< The time of the request, on the driver's clock.
  };

  // failure_view.cpp: receiving and sending statuses
  void on_status(Status status, const Speaker& from);
  void settle();
  Row who_is_heard() const;
  bool is_heard(MemberId id, const Peer& peer) const;
  bool is_joining(const Peer& peer) const;
  void say_status();
  void say_news();
  void introduce_ourselves() { next_status_ = std::min(next_status_, local_.now() + timing_.soon); }
  Transmit status(std::vector<Address> to);
  std::vector<Address> everybody() const;
  std::vector<Address> front();
  void tell_agreed(const Address& to);
  void tell_if_behind(Epoch epoch, const Address& to);
  void forget_old_peers();

  // failure_view_listening.cpp: which silence counts
  void advance(Time clock);
  Time listening_now() const { return listening_.at(local_.now()); }
  void note_absence();
  bool is_recovering() const;
  bool is_doubtful(const Peer& peer) const;
  void weigh_words();
  Time next_listen() const;
  void tend_listening();

  // failure_view_addresses.cpp: address claims of joiners
  bool claims_address_of(const Peer& joiner, const Member& former) const;
  void check_address_claim(const Peer& joiner);
  std::size_t place_to_ask(const Member& former) const;
  std::uint64_t newest_word_of(MemberId id) const;

  // failure_view_leases.cpp: the lease of this process, and the lease grants that it gives
  bool asks_for_lease() const;
  bool may_grant(MemberId holder) const;
  bool needs_renewal() const;
  bool concerns_leases() const;
  void hear_of_leases(const Status& status);
  void say_of_leases(Status& status);
  void begin_leases(bool newcomer);
  void end_leases();
  std::vector<Held> may_be_held(const View& proposal) const;
  bool is_proven_dead(MemberId id) const { return exits_.contains(id); }
  bool leases_are_over() const;
  void note_exit(MemberId id, bool here);
  bool is_on_one_host(MemberId a, MemberId b) const;
  Duration heartbeat() const;
  void tend_leases();
  Time next_lease_event() const;

  // failure_view_links.cpp: reports to the application about the links to other members
  bool is_link_good(MemberId id, const Peer& peer) const;
  void tend_links();
  Time next_report() const;

  // failure_view_changing.cpp: from testimony to a proposal
  void on_agreed(const View& view, const Speaker& from);
  void learn(const View& view);
  void note_gone(MemberId id);
  void note_bad_path(MemberId id);
  Testimony testimony() const;
  void tend_leaving();
  void evaluate();
  void evaluate_as_member();
  void evaluate_as_joiner();
  void want(MemberSet removed, MemberSet joining, Duration wait, bool minority = false);
  Time not_before() const;
  void propose();

  // failure_view_store.cpp: requests to the store
  RequestId ask(std::optional<Pending>& pending);
  void read_store();
  void read_if_behind(Epoch epoch);
  void tend_store();
  bool is_lost(const Pending& pending, const View& shown);
  void swapped(const SwapResult& result);
  void answered();
  void store_failed(Error cause);

  // failure_view_claims.cpp: liveness queries in the store
  bool may_claim() const;
  void tend_claim();
  void on_claims(const View& claims);

  Member self_;
  const Timing timing_;
  const Suspicion nobody_yet_;  ///< The state in which the suspicion of a peer begins.
  Time clock_{};                ///< The time of the last input, on the driver's clock.
  LocalTime local_;
  Listening listening_;
  RequestId listen_{};  ///< The newest Listen.
  /// Until this listening time this process removes no member because of silence, because it was not running
  /// itself.
  Time recovered_at_{};
  State state_ = State::joining;
  bool leaves_ = false;  ///< True if the application has called leave().
  View view_;
  /// All other processes that are members of the view, that want to join, or that were members lately.
  std::map<MemberId, Peer> peers_;
  MemberSet gone_;  ///< The members of the view that are gone.
  Row heard_;
  MemberSet returned_, doubtful_;  ///< Processes whose testimony counts for less. See Testimony.
  std::uint64_t sequence_ = 0;
  /// True if the testimony has changed since it was evaluated.
  bool dirty_ = true;
  /// True if the status of this process has changed since it was sent.
  bool say_soon_ = false;
  Time next_status_{};
  Time next_news_ = Time::never();
  LeaseGrants grants_;
  Lease lease_;
  /// For each holder, the number of its newest status whose request is granted in this view.
  std::map<MemberId, std::uint64_t> answers_;
  /// The epoch of the view in which this process has made a proposal. In that view it grants and asks for no
  /// lease any more.
  std::optional<Epoch> proposed_in_;
  /// On the driver's clock. At this time the store had no later view than the current one.
  Time confirmed_at_{};
  bool holds_ = false, earlier_over_ = false;  ///< As they were last reported.
  struct Exit {
    bool here = false;  ///< True if this process saw the exit.
    Time at{};          ///< On the local clock.
  };
  std::map<MemberId, Exit> exits_;
  struct AddressClaim {
    Time since{};                      ///< The time when a joiner first made the claim.
    Time ask_at{};                     ///< The earliest time of the next question.
    std::optional<RequestId> request;  ///< The question whose answer is awaited.
    /// The number of the member's newest status when the question was sent.
    std::uint64_t said = 0;
  };
  /// Indexed by the member of the view whose address is claimed.
  std::map<MemberId, AddressClaim> address_claims_;
  /// Processes heard since the last status. They wait for a status of this process.
  MemberSet unmet_;
  Time learnt_at_{};  ///< The time when the current view became known.
  /// For a joiner: the time when it last heard a member or read the view for the first time.
  Time member_heard_{};

  // The change that this process wants, if any.
  MemberSet removed_, joining_;
  Duration wait_{};
  Time wanted_since_ = Time::never();
  /// The time when a joiner was last heard for the first time, or found fit to join.
  Time joiner_at_{};
  bool minority_ = false;  ///< True if this process may be cut off from the others.
  bool takeover_ = false;  ///< True if the change replaces members that may be alive.

  bool reachable_ = true, view_was_read_ = false, read_again_ = false;
  std::uint64_t last_request_ = 0;
  std::optional<Pending> read_, swap_, claim_;
  Time read_at_{}, claim_at_{};
  /// When to read the store, because a newer view than the current one is known to exist.
  Time behind_at_ = Time::never();
  /// The newest epoch that another process or the store has shown.
  Epoch shown_{};
  /// The time since which a liveness query without an answer has been seen.
  Time claimed_since_ = Time::never();
  Duration backoff_{};

  Counters counters_;
  std::deque<Output> outputs_;
};

}  // namespace rdmc::view
