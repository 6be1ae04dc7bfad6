// Agreed input and output commit at one replica of a state. The main, which is the root of the group, puts
// the events of all replicas into one order. Every replica gets them in that order. What follows from an
// event may leave a replica only when the event is stable: then every replica has it.
//
// The order has events of applications and decisions of the main. Each of them is an entry, and has a
// position. An epoch of the group begins with a ReplicaList. The main makes it when all replicas have said
// Hello. Until the list is stable, nothing becomes stable for the application. A replica that does not have
// the whole state gets it from another one: the main names both in a TransferOrder, whose position says which
// events the state has.
//
// A replica that was complete and is not in the group any more has departed. It may not know this yet, and
// may still answer reads as the main. So nothing becomes stable until it is not in the view either and the
// leases of the views with it are over.
//
// Replicas may keep the state on disk. If no replica has the state in memory, the one with the latest stored
// state goes on with it. The order of stored states is: the range of the position (see kRange), the epoch,
// the position. In one range, a replica that has an event of an epoch has all events that were stable in
// earlier epochs, and within an epoch the events have one order. So the latest of stored states that include
// one of each set of least_replicas replicas has all that was stable.
//
// A core: it has no I/O, clock, threads or randomness. One caller at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/state/messages.hpp"

namespace rdmc::state {

/// The group and the membership, as an AgreedInput needs them.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// Sends a message to the group. Returns its number. Errors: would_block if the group cannot send now; any
  /// other error ends this replica's part.
  virtual Result<std::uint64_t> send(std::shared_ptr<const Bytes> message) = 0;
  /// Sends a note to the main. An error means that the group has no open epoch now.
  virtual Result<void> tell_main(const Bytes& note) = 0;
  /// Requests that this member become the root of the group.
  virtual void hand_over(MemberId member) = 0;
  /// Requests that this member be removed from the view. Is called again and again until it is.
  virtual void remove(MemberId member) = 0;
  /// False while so much waits for the application that the main must not send.
  virtual bool has_space() const = 0;
  /// True while this epoch of the group is open and no other one is being prepared.
  virtual bool is_open(std::uint64_t epoch) const = 0;
};

// The changes that are only for the driver. The others are for the application (rdmc/replicated_state.hpp).

/// This replica must save its state as it is after everything before, and send it to the other one.
struct Save {
  std::uint64_t serial = 0;  ///< the position of the order
  std::uint32_t group = 0;   ///< identifies the transfer; it depends on the position and on both replicas
  std::shared_ptr<const Bytes> head;  ///< an encoded SnapshotHead
};
/// The transfer of this Save is over: the other replica has the state, or does not need it any more.
struct SaveOver {
  std::uint64_t serial = 0;
};
/// This replica gets the state from the other one. The application forgets what it had before.
struct Load {
  MemberId from{};
  std::uint64_t serial = 0;
  std::uint32_t group = 0;
};
/// This replica cannot take part any more.
struct Fault {
  Error cause;
};
using Change = std::variant<OrderedEvent, StableEvents, ReplicaStatus, Save, SaveOver, Load, Fault>;

class AgreedInput {
 public:
  struct Config {
    MemberId member{};
    ReplicaId id{};
    /// Nothing becomes stable while fewer replicas than this have the whole state, or have it on disk if
    /// awaits_disk.
    std::size_t least_replicas = 1;
    // These are ReplicatedStateOptions.
    std::size_t first_replicas = 1;
    std::optional<StoredState> stored{};
    bool awaits_disk = false;
  };
  /// The limit for the events of this replica that are not in the order yet.
  static constexpr std::size_t kMostWaitingEvents = 1 << 16, kMostWaitingBytes = 64 << 20;
  /// The limit for events on their way to the main. It is the flow control of the notes.
  static constexpr std::size_t kForwardWindow = kMostNote;
  /// A batch has about this many bytes of events at most, or one event.
  static constexpr std::size_t kBatchBytes = 64 * 1024;
  /// The main sends another batch while fewer than this many are not stable. So small events that come one
  /// after the other share batches when the group is busy.
  static constexpr std::uint64_t kMostBatches = 4;

  /// Each time that a state is begun anew, positions go on at a random place in the next range of this
  /// length. So replicas with an earlier state notice it: the next position is more than kFar away from
  /// theirs.
  static constexpr std::uint64_t kRange = std::uint64_t{1} << 48, kFar = std::uint64_t{1} << 32;

  /// `outlet` must exist longer. It is not called in the constructor.
  AgreedInput(const Config& config, Outlet& outlet)
      : config_(config), outlet_(outlet), stored_(config.stored.value_or(StoredState{})) {}

  // -- The application --

  /// Takes an event. Returns its number at this replica. Errors: invalid_argument if it is longer than
  /// kMostEventBytes; would_block if too many events wait, or if this replica does not have the whole state;
  /// cancelled after a Fault.
  Result<std::uint64_t> submit(std::span<const std::byte> bytes);
  /// The driver calls this function after each call of another function of this class. It puts what waits
  /// into the order. `now` is the time in nanoseconds since 1970, and `seed` is random.
  void order(std::int64_t now, std::uint64_t seed);
  /// Replaces the content of `to` by the changes since the last call, in their order.
  void take_changes(std::vector<Change>& to) {
    to.clear();
    to.swap(changes_);
  }
  /// True while the transfer of this Load goes on.
  bool loads(std::uint64_t serial) const { return loading_ && loading_->serial == serial; }
  /// The state of a Load has arrived. The events after it follow as changes. Returns false, without any
  /// effect, if the transfer is over, or if `head` does not fit to it; then another transfer follows.
  bool loaded(std::uint64_t serial, const SnapshotHead& head);
  /// The transfer to this replica has failed. Returns false, without any effect, if the transfer is over. If
  /// the application has a disk, a Fault follows: it must read the disk again before it opens a new replica.
  bool load_failed(std::uint64_t serial);
  /// The replica cannot take part any more, because its group has ended.
  void end(Error cause) { fail(std::move(cause)); }
  /// The application has everything below the position on disk.
  void persisted(std::uint64_t position);
  /// No replica has the whole state, and the application has decided that the state goes on from what this
  /// replica has. Errors: invalid_argument if the state is not lost, or if this replica is not the main.
  Result<void> begin_anew();
  /// True if answers may leave that follow from stable events.
  bool may_commit() const;
  bool has_failed() const { return has_failed_; }
  /// The epoch in which this replica is the main and may_commit() is true, or 0.
  std::uint64_t answering_epoch() const { return is_main() && may_commit() ? group_->epoch : 0; }
  /// About the memory of the events that wait until this replica has the state.
  std::size_t held_bytes() const { return loading_ ? loading_->held_bytes : 0; }

  // -- The group. The functions have the meaning of the upcalls of a MemberGroup. --

  void on_continued(const GroupView& group);
  void on_message(std::uint64_t number, std::shared_ptr<const Bytes> message);
  void on_stable(std::uint64_t count);
  void on_note(MemberId from, std::span<const std::byte> note);

  // -- The membership --

  void on_view(const View& view);
  void on_leases_over(Epoch epoch);

 private:
  struct Waiting {
    ReplicaId from{};
    std::uint64_t number = 0;
    std::shared_ptr<const Bytes> bytes;
  };
  struct Held {
    std::uint64_t position = 0;
    std::int64_t time = 0;
    std::uint64_t seed = 0;
    Entry entry;
    std::shared_ptr<const Bytes> keeper;
  };
  struct Loading {
    std::uint64_t serial = 0;
    ReplicaId from{};
    std::deque<Held> held;  ///< what comes after the state
    std::size_t held_bytes = 0;
  };

  bool is_main() const { return group_ && group_->root == config_.member; }
  Hello own_hello() const;
  void tell_hello();
  void drop_loading();
  void give_up_loading();
  bool fits(const Batch& batch);
  void take_hello(MemberId from, const Hello& hello);
  bool has_all_hellos() const;
  std::size_t complete() const;
  std::optional<MemberId> choose_donor() const;
  void fail(Error cause);
  void forward();
  std::size_t stored() const;
  bool is_stored() const;
  std::uint64_t persisted_place() const;
  void advance_durable();
  std::optional<MemberId> choose_stored() const;
  void begin_from_stored();
  bool prepare_epoch();
  bool hand_over(MemberId to);
  void list_replicas();
  void advance_stable(std::uint64_t count);
  void order_transfer(MemberId to);
  bool send_batch(std::int64_t now, std::uint64_t seed);
  void take(const std::shared_ptr<const Bytes>& message);
  void apply(const Held& one);
  void apply(const Held& one, const Event& event);
  void apply(const Held& one, const ReplicaList& list);
  void apply(const Held& one, const TransferOrder& order);
  void begin_at(std::uint64_t position);
  void depart(MemberId member);
  void depart_all_others();
  void check_departed();
  void commit();
  void tell_status();

  const Config config_;
  Outlet& outlet_;
  bool has_failed_ = false;
  std::vector<Change> changes_;
  ReplicaStatus told_;
  std::map<std::uint64_t, ReplicaId> saves_;  ///< the transfers from this replica that are not over

  // The present epoch.
  std::optional<GroupView> group_;
  bool has_said_hello_ = false;
  bool told_stored_ = false;             ///< in the newest Hello
  std::uint64_t told_persisted_ = 0;     ///< in the newest note
  std::map<MemberId, Hello> hellos_;     ///< main: the replicas that have said Hello
  bool has_list_ = false;                ///< main: the list of this epoch is in the order, or about to be
  std::optional<std::uint64_t> listed_;  ///< the position after the list of this epoch, when it has come
  std::optional<MemberId> handed_to_;
  std::deque<Entry> decisions_;  ///< main: what it puts into the order next
  std::deque<Waiting> queue_;    ///< main: events that are not in the order, and perhaps some that are

  // The events of this replica that are not in the order.
  std::deque<Waiting> own_;
  std::size_t own_bytes_ = 0;
  std::size_t forwarded_ = 0, forwarded_bytes_ = 0;  ///< the first ones of own_ are on their way to the main
  std::uint64_t last_number_ = 0;

  // The replicated state of this class.
  bool is_complete_ = false, is_lost_ = false;
  std::uint64_t position_ = 0;
  std::uint64_t epoch_ = 0;  ///< of the newest list
  std::int64_t time_ = 0;
  std::vector<Replica> replicas_;
  std::map<ReplicaId, std::uint64_t> last_;
  /// For each departed member, the first view without it that was installed here.
  std::map<MemberId, std::optional<Epoch>> departed_;
  /// departed_ has, or had, the unknown replicas of an earlier state, and is not empty yet.
  bool is_beginning_ = false;
  std::optional<Loading> loading_;

  // These members say what is on disk, here and at all replicas that must have it there.
  StoredState stored_;  ///< what the application had at first, if it still has it
  std::uint64_t loaded_ = 0, app_persisted_ = 0;
  std::uint64_t event_end_ = 0;  ///< the position after the last event, or after the loaded state
  std::uint64_t durable_ = 0, told_durable_ = 0;

  // These members describe which part of the order is stable.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> ends_;  ///< a message, and the position after it
  std::uint64_t stable_ = 0, committed_ = 0;
  View view_;
  Epoch leases_over_{};
};

}  // namespace rdmc::state
