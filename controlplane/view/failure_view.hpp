// One process's part in a group's failure view: it says whom it hears, listens to what the others say, and
// when together they find that somebody is gone or wants to join, proposes the next view to the store. What
// the store has accepted is the view; nobody acts on anything else. A pure state machine: messages, answers
// of the store and time go in, outputs come out of poll(). It owns what it keeps; one thread.
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

/// How a message travels. Whoever is on the path of a data path that is not encrypted can forge what comes
/// over it.
enum class Way : std::uint8_t {
  data_path,      ///< it also shows that the data path works; over the control channel while there is none
  authenticated,  ///< over the control channel, or over a data path that is encrypted
  both,           ///< over the data path, and once more authenticated where the data path is not encrypted
};
/// To each of these control listeners; may be lost, late, doubled.
struct Transmit {
  std::vector<Address> to;
  Bytes message;
  Way way = Way::data_path;
};
/// Ask the store, and answer with on_read or on_swapped.
struct ReadStore {
  RequestId request{};
  StoreEntry entry{};
};
struct SwapStore {
  RequestId request{};
  View next;
  StoreEntry entry{};
};
/// Take in everything that has arrived by now, on every thread and from every socket, and call on_listened
/// after it. While nobody answers, no silence counts.
struct Listen {
  RequestId request{};
};
/// Find out which process listens at this address, a member's, now, and call on_listener. The next question
/// about that member comes after Timing::ask_listener_again at the earliest. Then an answer to this one
/// counts no more.
struct AskListener {
  RequestId request{};
  Address address;
};
/// This view is agreed and has us: the epoch before is over, here and now. Its queue pairs to members that
/// are not in this one are to be destroyed, its grants and keys revoked.
struct Installed {
  View view;
};
/// This view is agreed without us. The last output: who wants back in joins as a new member.
struct Removed {
  View view;
};
/// The current view goes on, and can't be changed until StoreFound.
struct StoreLost {
  Error cause;
};
struct StoreFound {};
/// The link to that member has been bad for Timing::unreachable_after, and the member stays in the view: most
/// others reach it, or the view cannot change. Reachable follows, or a view without the member.
struct Unreachable {
  MemberId member{};
  bool heard = false;     ///< its statuses arrive here
  bool hears_us = false;  ///< it says, or last said, that ours arrive there
};
struct Reachable {
  MemberId member{};
};
/// The view of this epoch is installed, and no process holds a lease any more with which it could serve in an
/// earlier view. This follows each Installed, at once or when the leases have run out.
struct EarlierLeasesOver {
  Epoch epoch{};
};
/// This process has got its own lease, or has lost it: see FailureView::lease_until.
struct LeaseGained {};
struct LeaseLost {};
using Output =
    std::variant<Transmit, ReadStore, SwapStore, Installed, Removed, StoreLost, StoreFound, Unreachable,
                 Reachable, Listen, AskListener, EarlierLeasesOver, LeaseGained, LeaseLost>;

/// Who said something, as its link knows, whatever it says.
struct Speaker {
  MemberId id{};
  Address address;                ///< of its control listener
  bool is_authenticated = false;  ///< the message came as Way::authenticated asks for
};

class FailureView {
 public:
  enum class State : std::uint8_t { joining, member, removed };

  struct Counters {
    std::uint64_t proposals = 0, conflicts = 0;  ///< conflicts: another's proposal stood first
    std::uint64_t suspicions = 0, recoveries = 0;
    std::uint64_t unreachable = 0;          ///< bad links to members that stayed, see Unreachable
    std::uint64_t malformed = 0, late = 0;  ///< messages
    std::uint64_t store_failures = 0;
    std::uint64_t claims = 0, answers = 0;    ///< whether any member lives: asked, and answered
    std::uint64_t leases_lost = 0;            ///< ours, see LeaseLost
    std::uint64_t listeners_asked = 0;        ///< see AskListener
    std::uint64_t address_claims_denied = 0;  ///< another than the joiner answered, or nobody, or the member
                                              ///< has been heard since
    std::uint64_t disagreements = 0;          ///< another view of our epoch: the store is broken. Never.
  };

  /// `self.since` is ignored. Begins to join, or to form the group, at the first input.
  FailureView(Member self, const Timing& timing);

  // Inputs. `clock` is the driver's. With leases it is CLOCK_BOOTTIME: it never jumps, and its rate is right
  // within kClockDrift. Without leases it may jump. Nothing happens once we are removed.
  void start(Time clock) { on_timer(clock); }
  /// What is not authenticated grants and ends no lease, brings no view and introduces no joiner.
  /// Errors: protocol_error, for who speaks in another's name too; nothing has changed then.
  Result<void> on_message(std::span<const std::byte> bytes, const Speaker& from, Time clock);
  void on_read(RequestId request, Result<View> result, Time clock);
  void on_swapped(RequestId request, Result<SwapResult> result, Time clock);
  /// The store's watch says that the view may have changed, to that of `epoch` if it knows.
  void on_hint(std::optional<Epoch> epoch, Time clock);
  /// What had arrived when that Listen came out of poll() has been given to on_message.
  void on_listened(RequestId request, Time clock);
  /// That process is certainly dead: its exit was seen here, on its host. Nothing else shortens the wait for
  /// its lease.
  void on_exited(MemberId member, Time clock);
  /// That process is to be removed: an operator wishes it, or there is a sign of its death. Its lease is
  /// waited for.
  void on_gone(MemberId member, Time clock);
  /// Its address says that nobody listens there. `had_connection`: to that very process, until now; only that
  /// makes it dead, and only to a member. A firewall says the same to others, whoever listens.
  void on_refused(MemberId member, bool had_connection, Time clock);
  /// The answer to that AskListener: which process listens at the address, if it is one that speaks to us and
  /// has proved that it is that one. Nothing: nobody has answered, or another process.
  void on_listener(RequestId request, std::optional<MemberId> listener, Time clock);
  /// The data path to it gave up in that epoch (RC retries exhausted).
  void on_path_failed(MemberId member, Epoch epoch, Time clock);
  /// An operator's wish. Errors: not_found, peer_failed (the store can't be reached), invalid_argument (we
  /// are no member).
  Result<void> remove(MemberId member, Time clock);
  /// Removed comes when the others have agreed. While we are no member it comes at once; but when we have
  /// proposed a view with us, not before the store has answered or has had its time.
  void leave(Time clock);
  void on_timer(Time clock);
  /// On the driver's clock.
  Time next_deadline() const;
  std::optional<Output> poll();

  State state() const { return state_; }
  const Member& self() const { return self_; }
  /// The newest that is known to be agreed; while joining, one without us.
  const View& view() const { return view_; }
  /// The fence: whether something sent by `from` in `epoch` may have any effect here.
  bool admits(Epoch epoch, MemberId from) const;
  /// The end of our lease on the driver's clock: before it, no process serves in a later view than ours. It
  /// is compared with the clock whenever we serve. Time{}: we hold none.
  Time lease_until() const;
  /// From this time on nobody serves in an earlier view than ours, so we may serve what this view gives to
  /// us. Time::never() while we are no member.
  Time takeover_at() const;
  bool store_reachable() const { return reachable_; }
  const Counters& counters() const { return counters_; }
  /// Suspicion level (phi) of a member; 0 for strangers and ourselves.
  double level(MemberId member) const;
  /// False between Unreachable and Reachable.
  bool reaches(MemberId member) const;

 private:
  struct Peer {
    Member member;
    Suspicion suspicion;
    bool said_anything = false;
    bool silent = false;  ///< for so long, while we listened, that it is suspected
    Time recovered_at{};  ///< until then it has only just been heard again, after long
    Time path_failed_until{};
    Time link_bad_since = Time::never();  ///< the link between us and a member of our view
    bool unreachable = false;             ///< … and that has been reported
    Status status;
  };
  struct Pending {
    RequestId request{};
    Time deadline{};
    Epoch known{};  ///< of our view when we asked: the store shows none older, unless it has lost data
    Time asked{};   ///< on the driver's clock
  };

  // failure_view.cpp: hearing and saying
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

  // failure_view_listening.cpp: what silence counts
  void advance(Time clock);
  Time listening_now() const { return listening_.at(local_.now()); }
  void note_absence();
  bool is_recovering() const;
  bool is_doubtful(const Peer& peer) const;
  void weigh_words();
  Time next_listen() const;
  void tend_listening();

  // failure_view_addresses.cpp: who listens at the address of a member, when a joiner says that it does
  bool claims_address_of(const Peer& joiner, const Member& former) const;
  void check_address_claim(const Peer& joiner);
  std::size_t place_to_ask(const Member& former) const;
  std::uint64_t newest_word_of(MemberId id) const;

  // failure_view_leases.cpp: what this process holds, and what it grants
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

  // failure_view_links.cpp: what the application is told of the links to the other members
  bool is_link_good(MemberId id, const Peer& peer) const;
  void tend_links();
  Time next_report() const;

  // failure_view_changing.cpp: from words to a proposal
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

  // failure_view_store.cpp: asking the store
  RequestId ask(std::optional<Pending>& pending);
  void read_store();
  void read_if_behind(Epoch epoch);
  void tend_store();
  bool is_lost(const Pending& pending, const View& shown);
  void swapped(const SwapResult& result);
  void answered();
  void store_failed(Error cause);

  // failure_view_claims.cpp: asking in the store whether any member lives
  bool may_claim() const;
  void tend_claim();
  void on_claims(const View& claims);

  Member self_;
  const Timing timing_;
  const Suspicion nobody_yet_;  ///< what a peer begins with
  Time clock_{};                ///< as the driver has it, of the last input
  LocalTime local_;
  Listening listening_;
  RequestId listen_{};   ///< the newest
  Time recovered_at_{};  ///< until then we remove nobody for being silent: we were not running ourselves
  State state_ = State::joining;
  bool leaves_ = false;  ///< the application wishes it
  View view_;
  std::map<MemberId, Peer> peers_;  ///< everybody but ourselves: of the view, joining, and lately removed
  MemberSet gone_;                  ///< of the view
  Row heard_;
  MemberSet returned_, doubtful_;  ///< whose words count for less, see Testimony
  std::uint64_t sequence_ = 0;
  bool dirty_ = true;      ///< words have changed since they were weighed
  bool say_soon_ = false;  ///< ours have changed since they were said
  Time next_status_{};
  Time next_news_ = Time::never();
  LeaseGrants grants_;
  Lease lease_;
  std::map<MemberId, std::uint64_t> answers_;  ///< by holder: its newest status that we grant in this view
  std::optional<Epoch> proposed_in_;  ///< we have proposed in that view: we grant and ask no more in it
  Time confirmed_at_{};  ///< on the driver's clock: no later view than ours stood in the store then
  bool holds_ = false, earlier_over_ = false;  ///< as it was last reported
  struct Exit {
    bool here = false;  ///< this process saw it
    Time at{};          ///< local
  };
  std::map<MemberId, Exit> exits_;
  struct AddressClaim {
    Time since{};                      ///< a joiner first made it
    Time ask_at{};                     ///< not before that
    std::optional<RequestId> request;  ///< an answer is awaited
    std::uint64_t said = 0;            ///< the member's newest status when we asked
  };
  std::map<MemberId, AddressClaim> address_claims_;  ///< by the member of the view whose address it is
  MemberSet unmet_;      ///< heard since our last status: what they wait for is a word of ours
  Time learnt_at_{};     ///< when we came to the view that we are in
  Time member_heard_{};  ///< a joiner's: when it last heard a member, or first knew the view

  // The change that is wanted, if any.
  MemberSet removed_, joining_;
  Duration wait_{};
  Time wanted_since_ = Time::never();
  Time joiner_at_{};       ///< when one more was first heard, or found fit to join
  bool minority_ = false;  ///< it is the wish of one that is perhaps cut off
  bool takeover_ = false;  ///< it replaces members that may be alive

  bool reachable_ = true, view_was_read_ = false, read_again_ = false;
  std::uint64_t last_request_ = 0;
  std::optional<Pending> read_, swap_, claim_;
  Time read_at_{}, claim_at_{};
  Time behind_at_ = Time::never();      ///< a newer view than ours is known to be there
  Epoch shown_{};                       ///< the newest that we were shown
  Time claimed_since_ = Time::never();  ///< since when we see a claim that nobody has answered
  Duration backoff_{};

  Counters counters_;
  std::deque<Output> outputs_;
};

}  // namespace rdmc::view
