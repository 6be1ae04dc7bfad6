// One process's part in the failure view of a group. The process reports which processes it hears, and
// receives the reports of the others. When the processes agree that a member is gone, or that a joiner can be
// admitted, one of them proposes the next view to the store. The view is what the store has accepted, and no
// process acts on anything else. This is a core without I/O: its input is messages, answers of the store, and
// the time, and poll() returns its outputs. It owns all its data. Only one thread may use it.
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

/// How a message must be sent. If the data path is not encrypted, a process on its network path can forge
/// messages on it.
enum class Way : std::uint8_t {
  /// The message goes over the data path, so it also shows that the data path works. While there is no data
  /// path, the message goes over the control channel.
  data_path,
  authenticated,  ///< The message goes over the control channel, or over an encrypted data path.
  /// The message goes over the data path. If the data path is not encrypted, it also goes over the control
  /// channel.
  both,
};
/// The driver must send the message to each of these control listeners. The message may be lost, delayed or
/// duplicated.
struct Transmit {
  std::vector<Address> to;
  Bytes message;
  Way way = Way::data_path;
};
/// The driver must send the request to the store. It must answer ReadStore with on_read, and SwapStore with
/// on_swapped.
struct ReadStore {
  RequestId request{};
  StoreEntry entry{};
};
struct SwapStore {
  RequestId request{};
  View next;
  StoreEntry entry{};
};
/// The driver must take in everything that has arrived by now, on every thread and from every socket, and
/// then call on_listened. Silence does not count until the driver has called on_listened.
struct Listen {
  RequestId request{};
};
/// The driver must find out which process now listens at this address of a member, and call on_listener.
/// Another AskListener for the same member is emitted after at least Timing::ask_listener_again. After that,
/// an answer to this request has no effect.
struct AskListener {
  RequestId request{};
  Address address;
};
/// This view is agreed and contains this process, and the earlier epoch has ended at this process. The driver
/// must destroy the earlier epoch's queue pairs to members that are not in this view, and must revoke the
/// earlier epoch's grants and keys.
struct Installed {
  View view;
};
/// This view is agreed and does not contain this process. No output follows. If the process wants to be a
/// member again, it must join as a new member.
struct Removed {
  View view;
};
/// The store cannot be reached. The current view stays, and cannot change until StoreFound.
struct StoreLost {
  Error cause;
};
struct StoreFound {};
/// The member link to this member has been bad for Timing::unreachable_after. The member stays in the view,
/// because most other members reach it, or because the view cannot change. After this, either Reachable or a
/// view without the member follows.
struct Unreachable {
  MemberId member{};
  bool heard = false;  ///< True if the member's statuses arrive here.
  /// True if this process's statuses arrive at the member, according to the member's last status.
  bool hears_us = false;
};
struct Reachable {
  MemberId member{};
};
/// The view of this epoch is installed, and no process has a lease any more with which it could serve in an
/// earlier view. This output follows each Installed. It follows at once, or when the leases have ended.
struct EarlierLeasesOver {
  Epoch epoch{};
};
/// This process has gained or lost its own lease. See FailureView::lease_until.
struct LeaseGained {};
struct LeaseLost {};
using Output =
    std::variant<Transmit, ReadStore, SwapStore, Installed, Removed, StoreLost, StoreFound, Unreachable,
                 Reachable, Listen, AskListener, EarlierLeasesOver, LeaseGained, LeaseLost>;

/// The sender of a message, as the link of the message knows it. It does not depend on the content of the
/// message.
struct Speaker {
  MemberId id{};
  Address address;                ///< The address of the sender's control listener.
  bool is_authenticated = false;  ///< True if the message arrived in a way that Way::authenticated allows.
};

class FailureView {
 public:
  enum class State : std::uint8_t { joining, member, removed };

  struct Counters {
    std::uint64_t proposals = 0,
                  conflicts = 0;  ///< A conflict: another process's proposal was accepted first.
    std::uint64_t suspicions = 0, recoveries = 0;
    std::uint64_t unreachable = 0;  ///< Bad links to members that stayed in the view. See Unreachable.
    /// Malformed messages, and statuses that arrived after a later status.
    std::uint64_t malformed = 0, late = 0;
    std::uint64_t store_failures = 0;
    /// `claims` counts the liveness queries that this process has written, and `answers` those that it has
    /// answered.
    std::uint64_t claims = 0, answers = 0;
    std::uint64_t leases_lost = 0;  ///< The number of times that this process lost its lease. See LeaseLost.
    std::uint64_t listeners_asked = 0;  ///< The number of AskListener outputs.
    /// Address claims that were not confirmed, because the joiner did not answer at the address, or because
    /// the member was heard after the question.
    std::uint64_t address_claims_denied = 0;
    /// The number of times that a view with the epoch of the current view, but with another content, was
    /// seen. Only a broken store makes this counter more than 0.
    std::uint64_t disagreements = 0;
    /// The longest time, on the driver's clock, in which this process did not prove that it listened to other
    /// processes (Listen). In this time it may also have sent nothing. So the others may remove a process
    /// whose absence was longer than Timing::suspect_floor. Normally it is a little more than one heartbeat.
    Duration longest_absence{};
  };

  /// `self.since` is ignored. The process begins to join the group, or to form it, with the first input.
  FailureView(Member self, const Timing& timing);

  // Inputs. `clock` is the time on the driver's clock. With leases, this clock must be CLOCK_BOOTTIME,
  // because this clock never jumps, and the error of its rate is at most kClockDrift. Without leases the
  // clock may jump. After this process has been removed, inputs have no effect.
  void start(Time clock) { on_timer(clock); }
  /// Handles a message. If it is not authenticated, it grants and ends no lease, brings no view, and
  /// introduces no joiner. Errors: protocol_error if the message is malformed or names another sender. Such a
  /// message has no effect.
  Result<void> on_message(std::span<const std::byte> bytes, const Speaker& from, Time clock);
  void on_read(RequestId request, Result<View> result, Time clock);
  void on_swapped(RequestId request, Result<SwapResult> result, Time clock);
  /// The driver must call this when the store's watch reports that the view may have changed. `epoch` is the
  /// new epoch, if the store knows it.
  void on_hint(std::optional<Epoch> epoch, Time clock);
  /// The driver must call this when everything that had arrived at the time of the Listen has been given to
  /// on_message.
  void on_listened(RequestId request, Time clock);
  /// The driver must call this when it has seen the exit of that process on the same host. The process is
  /// then certainly dead. Only an exit that was seen shortens the wait for the process's lease.
  void on_exited(MemberId member, Time clock);
  /// Requests that the process is removed, because an operator wants it or because there is a sign of its
  /// death. This does not shorten the wait for the process's lease.
  void on_gone(MemberId member, Time clock);
  /// The driver must call this when the address of that process has refused a connection. `had_connection` is
  /// true if this process had a connection to that same process until now. In that case a member counts the
  /// process as gone. In all other cases the refusal only makes a bad link, because a firewall also refuses
  /// connections.
  void on_refused(MemberId member, bool had_connection, Time clock);
  /// The answer to an AskListener. `listener` is the process that listens at the address, if it is connected
  /// to this process and has proved its identity. It is nullopt if another process answered, or if no process
  /// answered.
  void on_listener(RequestId request, std::optional<MemberId> listener, Time clock);
  /// The driver must call this when the data path to that member gave up in that epoch, because the retries
  /// of its RC connection were exhausted.
  void on_path_failed(MemberId member, Epoch epoch, Time clock);
  /// Removes a member because an operator has requested it. Errors: invalid_argument if this process is no
  /// member, not_found if the view does not contain the member, peer_failed if the store cannot be reached.
  Result<void> remove(MemberId member, Time clock);
  /// Leaves the group. A member gets Removed when the others have agreed. A process that is no member gets
  /// Removed at once, with one exception: if it has proposed a view that contains it, it gets Removed only
  /// after the store has answered or after the store's time limit.
  void leave(Time clock);
  void on_timer(Time clock);
  /// Returns the time of the next on_timer, on the driver's clock.
  Time next_deadline() const;
  std::optional<Output> poll();

  State state() const { return state_; }
  const Member& self() const { return self_; }
  /// Returns the newest view that is known to be agreed. While this process is joining, this view does not
  /// contain it.
  const View& view() const { return view_; }
  /// Implements the fence. Returns true if a message that `from` has sent in `epoch` may have an effect here.
  bool admits(Epoch epoch, MemberId from) const;
  /// Returns the end of this process's lease, on the driver's clock, or Time{} if this process has no lease.
  /// Before that time, no process serves in a view later than this process's view. The caller must compare
  /// the result with the clock each time that it serves.
  Time lease_until() const;
  /// Returns the time after which no process serves in a view earlier than the current view. From this time
  /// on, this process may serve what the current view assigns to it. Returns Time::never() while this process
  /// is no member.
  Time takeover_at() const;
  bool store_reachable() const { return reachable_; }
  const Counters& counters() const { return counters_; }
  /// Returns the suspicion level (phi) of a member. Returns 0 for this process and for processes that are no
  /// members.
  double level(MemberId member) const;
  /// Returns false between Unreachable and Reachable for that member.
  bool reaches(MemberId member) const;

 private:
  struct Peer {
    Member member;
    Suspicion suspicion;
    bool said_anything = false;
    bool silent = false;  ///< True if the peer is suspected because of its silence.
    /// After a long silence of the peer: the listening time until which complaints about the peer do not
    /// count.
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
    /// The epoch of the current view when the request was sent. If the store shows an older epoch, it has
    /// lost data.
    Epoch known{};
    Time asked{};  ///< The time of the request, on the driver's clock.
  };

  // Defined in failure_view.cpp: receiving and sending statuses.
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

  // Defined in failure_view_listening.cpp: the decision which silence counts.
  void advance(Time clock);
  Time listening_now() const { return listening_.at(local_.now()); }
  void note_absence();
  bool is_recovering() const;
  bool is_doubtful(const Peer& peer) const;
  void weigh_words();
  Time next_listen() const;
  void tend_listening();

  // Defined in failure_view_addresses.cpp: address claims of joiners.
  bool claims_address_of(const Peer& joiner, const Member& former) const;
  void check_address_claim(const Peer& joiner);
  std::size_t place_to_ask(const Member& former) const;
  std::uint64_t newest_word_of(MemberId id) const;

  // Defined in failure_view_leases.cpp: the lease of this process, and the lease grants that this process
  // gives.
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
  bool have_members_exited() const;
  void note_exit(MemberId id, bool here);
  bool is_on_one_host(MemberId a, MemberId b) const;
  Duration heartbeat() const;
  void tend_leases();
  Time next_lease_event() const;

  // Defined in failure_view_links.cpp: reports to the application about the links to other members.
  bool is_link_good(MemberId id, const Peer& peer) const;
  void tend_links();
  Time next_report() const;

  // Defined in failure_view_changing.cpp: the way from testimony to a proposal.
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

  // Defined in failure_view_store.cpp: requests to the store.
  RequestId ask(std::optional<Pending>& pending);
  void read_store();
  void read_if_behind(Epoch epoch);
  void tend_store();
  bool is_lost(const Pending& pending, const View& shown);
  void swapped(const SwapResult& result);
  void answered();
  void store_failed(Error cause);

  // Defined in failure_view_claims.cpp: liveness queries in the store.
  bool may_claim() const;
  void tend_claim();
  void on_claims(const View& claims);

  Member self_;
  const Timing timing_;
  const Suspicion nobody_yet_;  ///< The initial state of the suspicion of a peer.
  Time clock_{};                ///< The time of the last input, on the driver's clock.
  LocalTime local_;
  Listening listening_;
  RequestId listen_{};  ///< The id of the newest Listen.
  /// The listening time until which this process removes no member because of silence. It is set when this
  /// process itself was not running.
  Time recovered_at_{};
  /// The time of the last proof that this process listened, on the driver's clock.
  Time listened_at_{};
  State state_ = State::joining;
  bool leaves_ = false;  ///< True if the application has called leave().
  View view_;
  /// All other processes that are members of the view, that want to join, or that were members a short time
  /// ago.
  std::map<MemberId, Peer> peers_;
  MemberSet gone_;  ///< The members of the view that are gone.
  Row heard_;
  MemberSet returned_, doubtful_;  ///< The processes in Testimony::returned and in Testimony::doubtful.
  std::uint64_t sequence_ = 0;
  /// True if the testimony has changed since it was evaluated.
  bool dirty_ = true;
  /// True if the status of this process has changed since it was sent.
  bool say_soon_ = false;
  Time next_status_{};
  Time next_news_ = Time::never();
  LeaseGrants grants_;
  Lease lease_;
  /// For each lease holder, the number of its newest status whose request this process grants in this view.
  std::map<MemberId, std::uint64_t> answers_;
  /// The epoch of the view in which this process has made a proposal. In that view this process no longer
  /// asks for a lease, and no longer grants leases.
  std::optional<Epoch> proposed_in_;
  /// A time on the driver's clock at which the store had no view later than the current view.
  Time confirmed_at_{};
  bool holds_ = false, earlier_over_ = false;  ///< The values that the last LeaseGained, LeaseLost and
                                               ///< EarlierLeasesOver have reported.
  struct Exit {
    bool here = false;  ///< True if this process saw the exit.
    Time at{};          ///< The time on the local clock.
  };
  std::map<MemberId, Exit> exits_;
  struct AddressClaim {
    Time since{};                      ///< The time when a joiner first made the claim.
    Time ask_at{};                     ///< The earliest time of the next question.
    std::optional<RequestId> request;  ///< The question whose answer is awaited.
    /// The number of the member's newest status when the question was sent.
    std::uint64_t said = 0;
  };
  /// The key is the member of the view whose address is claimed.
  std::map<MemberId, AddressClaim> address_claims_;
  /// The processes that were heard for the first time since the last status. They wait for a status of this
  /// process.
  MemberSet unmet_;
  Time learnt_at_{};  ///< The time when the current view became known.
  /// For a joiner, the time when it last heard a member, or when it read the view for the first time.
  Time member_heard_{};

  // The change that this process wants to make, if there is one.
  MemberSet removed_, joining_;
  Duration wait_{};
  Time wanted_since_ = Time::never();
  /// The time when a joiner was last heard for the first time, or was last found fit to join.
  Time joiner_at_{};
  bool minority_ = false;  ///< True if this process may be cut off from the others.
  bool takeover_ = false;  ///< True if the change replaces members that may be alive.

  bool reachable_ = true, view_was_read_ = false, read_again_ = false;
  std::uint64_t last_request_ = 0;
  std::optional<Pending> read_, swap_, claim_;
  Time read_at_{}, claim_at_{};
  /// The time at which the store must be read, because a view newer than the current view is known to exist.
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
