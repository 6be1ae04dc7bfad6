// A state that several processes keep alike, for services that must survive the death of a process. All
// processes of a membership (rdmc/membership.hpp) that open the state with the same number are its replicas.
// Each replica submits events, for example the requests of its clients. All replicas get the same events in
// the same order, and apply them. So their states are the same, if the application is deterministic: the new
// state and the answer must follow only from the old state and the event.
//
// Two rules make sure that no answer is wrong or lost later. The first one is output commit: an answer that
// follows from an event must not leave before StableEvents has reported the position of the event. Each
// replica that takes part has the event then, and will apply it. The second rule is about reads. Only the
// main may answer a read that is not an event. It reads the value, then calls may_answer(), and then sends
// the answer. If the value follows from an event that is not stable yet, the answer waits for StableEvents,
// too.
//
// One replica is the main: it decides the order of events. If it dies, another one goes on. Applications do
// not notice that, except for a pause. The replicas submit again what the dead main has not put into the
// order, and each event is applied once. This holds for one call of submit(). A client that sends its request
// again to another replica needs a number in the request, by which the application finds the repetition.
//
// A process that opens the state later gets it from another replica, while the service goes on.
//
// An application can keep the state on disk, as a copy of the state and a log of the events after it. When
// all replicas have ended, the state then goes on from what the disks have: see
// ReplicatedStateOptions::stored.
//
//     auto state = rdmc::ReplicatedState::open(**membership, {.number = rdmc::GroupNumber{1}, .first_replicas
//     = 3});
//     (*state)->submit(request);
//     for (;;)
//       if (auto change = (*state)->take(rdmc::milliseconds(100))) ...  // apply, answer, save, load
//
// Threads: any thread may call submit() and may_answer(). take() gives each change to one caller only,
// so one thread should call it, often: it also does what the library must do now and then. open(), take() and
// the destructor wait for threads of the library, so they must not be called in an upcall, or while the
// caller holds a lock that an upcall takes. The destructor must not run while another thread is in a function
// of the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <rdmc/membership.hpp>

namespace rdmc {

/// A state that an application has on disk, and its place in the order.
struct StoredState {
  /// These are OrderedEvent::epoch, position + 1 and time of the last event, or those of LoadState if no
  /// event came after it. All are 0 if there is no state on disk.
  std::uint64_t epoch = 0, position = 0;
  std::int64_t time = 0;

  friend bool operator==(const StoredState&, const StoredState&) = default;
};

/// `number`, `first_replicas`, `least_replicas` and `awaits_disk` must be the same at all replicas, and all
/// replicas must set `stored`, or none.
struct ReplicatedStateOptions {
  /// The number of the state, below 2^31. The membership must have no group of its own with this number.
  GroupNumber number{};
  /// The state begins when this number of replicas have opened it, without an event, and with what their
  /// applications have at that time. It must be the same there. Until then, no replica has the state.
  /// Replicas that come later get it from another one. With 1, the first process that opens the state begins
  /// alone.
  std::size_t first_replicas = 1;
  /// No event becomes stable, and may_answer() is false, while fewer replicas than this have the whole state.
  /// 0 means more than half of `first_replicas`. Set it to more than half of the largest number of replicas
  /// that run at the same time: then no stable event is lost when some of the processes cannot reach the
  /// others for a while.
  std::size_t least_replicas = 0;
  /// An application that keeps the state on disk sets this option, also if there is nothing on its disk yet.
  /// It must have read this state into its memory. If no replica has the state in memory, because all
  /// processes have ended, the state goes on from what was stored. It begins as soon as more than
  /// `first_replicas` - `least_replicas` replicas have opened it that have stored something: at least one of
  /// them has each event that was on disk at `least_replicas` replicas. It also begins when `first_replicas`
  /// replicas have opened it, with the best of what they have. Replicas with the best state, which is the
  /// latest one, are complete then: their positions go on far above all earlier ones. All others get the
  /// state from them, as LoadState. Members that are not there at this moment are removed from the view, as
  /// for begin_anew().
  std::optional<StoredState> stored{};
  /// Events become stable only when they are on disk at all replicas whose state is on disk, and these are at
  /// least `least_replicas`. The application reports with persisted() what is on disk. `stored` must be set.
  bool awaits_disk = false;
  /// The limit for the bytes of events and of loaded state that wait for take(). When it is reached, this
  /// replica receives no more, and the main, which waits for all replicas, gets slower. It is at least 4 MB.
  /// An application that does not call take() for some seconds, for example because it saves its state in one
  /// call, needs space for the events of this time.
  std::size_t most_waiting_bytes = 256 << 20;
  /// Called when take() has something: on a thread of the library, or in a call of submit() or take(). It
  /// must not block, and must not call the state. It is for applications that wait for other things, too.
  std::function<void()> on_change{};
};

/// An event at its position in the order. All replicas get the same values, except for `own_number`.
struct OrderedEvent {
  /// Positions increase, but not always by one. They go on unchanged when the main or the replicas change.
  std::uint64_t position = 0;
  /// The epoch of the replicas in which the event got its position. If two processes have ended, and the last
  /// events that they have stored have different epochs, the state with the higher one is the later one,
  /// unless the state was begun anew between the two.
  std::uint64_t epoch = 0;
  /// The number that submit() has returned, if this replica has submitted the event, and 0 otherwise. take()
  /// may return the event before submit() has returned to another thread.
  std::uint64_t own_number = 0;
  /// The agreed time in nanoseconds since 1970. It is the clock of the main, and never goes back.
  std::int64_t time = 0;
  /// An agreed random number.
  std::uint64_t random = 0;
  std::span<const std::byte> bytes{};
  /// The bytes are valid while this exists. It keeps the memory of all events that came in the same message.
  std::shared_ptr<const std::vector<std::byte>> keeper{};
};

/// Answers may leave that follow from events below this position.
struct StableEvents {
  std::uint64_t position = 0;
};

/// The role of this replica in the service. It is reported whenever it changes.
struct ReplicaStatus {
  bool is_main = false;      ///< Only may_answer() says whether this replica may answer reads.
  bool is_complete = false;  ///< This replica has the whole state, and submit() takes events.
  /// Only at the main: no replica has the whole state. It is lost, because a replica that is opened again has
  /// no state. The service goes on after begin_anew(), or when all replicas have ended and new ones begin.
  bool is_lost = false;
  /// The number of replicas that have the whole state, in the newest list of the order. It is 0 before the
  /// first list, and too high for a moment after a death.
  std::uint32_t complete_replicas = 0;
  /// With ReplicatedStateOptions::awaits_disk: the number of these that have the state on disk. Otherwise it
  /// is equal to complete_replicas.
  std::uint32_t stored_replicas = 0;
  /// The state goes on from what was stored, or after begin_anew(), and a replica of the earlier state may
  /// still hold its lease. Nothing becomes stable here until this is false. It takes up to 3 s, or longer if
  /// the membership cannot remove members.
  bool awaits_earlier_leases = false;
  MemberId main{};  ///< the member that is the main, or is about to become the main

  friend bool operator==(const ReplicaStatus&, const ReplicaStatus&) = default;
};

/// Sends the state of this replica to another one. The handle may be copied and kept, so that the application
/// can write its state in several steps. Any thread may call any function. The last copy must not be
/// destroyed in an upcall.
class StateWriter {
 public:
  /// Adds bytes to what the other replica gets. Up to 256 KB are not copied. All bytes together must describe
  /// the state as it was when SaveState was taken: after all events before it, and without any event after
  /// it.
  void write(std::vector<std::byte> bytes);
  /// Must be called after the last write(). Then the handle is not needed any more. If the last copy of the
  /// handle is destroyed without this call, the other replica gets the state in another transfer, after up to
  /// 20 s.
  void finish();
  /// The number of bytes that were written and not sent yet. An application with a large state should write
  /// more when only a few megabytes wait. The value is 0 if the other replica does not need the state any
  /// more. Further writes have no effect then.
  std::size_t waiting_bytes() const;

 private:
  friend class ReplicatedState;
  class Impl;
  explicit StateWriter(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// The application must write its present state to `to`.
struct SaveState {
  StateWriter to;
  std::uint64_t position = 0;  ///< the state has all events below this position
};

/// A part of the state of another replica. It comes only to a replica that is not complete yet.
struct LoadState {
  enum class Step : std::uint8_t {
    begin,  ///< The application must drop what it has, also what it has loaded. This can happen again before
            ///< `end`.
    bytes,  ///< These bytes follow. They are those of write(), in the same order, but perhaps in other
            ///< pieces.
    end     ///< The state is complete. Events follow only after this.
  };
  Step step{};
  /// At `end`: the state has all events below this position. StableEvents is reported for them, too.
  std::uint64_t position = 0;
  /// At `end`: the epoch and the agreed time at this position.
  std::uint64_t epoch = 0;
  std::int64_t time = 0;
  std::span<const std::byte> bytes{};
  std::shared_ptr<const std::vector<std::byte>> keeper{};  ///< the bytes are valid while this exists
};

/// This replica does not take part any more: the membership has ended, the others have gone on without this
/// replica, or a message of another replica was wrong. This is the last change. It is unknown whether own
/// events that were not stable have taken effect. To take part again: destroy the state, destroy the
/// membership, join the membership, and open the state. The membership must be joined again because the
/// others remove a replica that they have lost from the view.
struct StateEnded {
  Error cause;
};

using StateChange = std::variant<OrderedEvent, StableEvents, ReplicaStatus, SaveState, LoadState, StateEnded>;

class ReplicatedState {
 public:
  /// The maximum length of an event: 1 MB less 32 bytes.
  static constexpr std::size_t kMostEventBytes = kMostNote - 32;

  /// Takes part in the state. `membership` must exist longer. It may be called as soon as join() has
  /// returned. The option `lease` of the membership should be set, usually to 150 or 200 ms: without a lease,
  /// may_answer() is always false. After a death that is not proved, reads and answers wait for the duration
  /// of a lease. Errors: invalid_argument if an option is not valid, and those of Membership::create_group.
  static Result<std::unique_ptr<ReplicatedState>> open(Membership& membership,
                                                       const ReplicatedStateOptions& options);
  /// Leaves. The others go on, and remove this process from the view, because they cannot know whether it
  /// still answers.
  ~ReplicatedState();
  ReplicatedState(const ReplicatedState&) = delete;
  ReplicatedState& operator=(const ReplicatedState&) = delete;

  /// Submits an event. The library copies it. Returns its number: 1 for the first event of this replica since
  /// open(), and so on. take() returns the event in the order, also at this replica. Errors: invalid_argument
  /// if the event is longer than kMostEventBytes; would_block if this replica does not have the state (try
  /// again when ReplicaStatus says that it is complete), or if 65,536 events or 64 MB of this replica are not
  /// in the order yet (try again after the next OrderedEvent); cancelled if StateEnded was reported.
  Result<std::uint64_t> submit(std::span<const std::byte> event);
  /// Returns the next change. Waits for it, for at most `longest`. Returns nullopt if there is none in this
  /// time.
  std::optional<StateChange> take(Duration longest = {});
  /// Returns true if this replica is the main, nobody else can be, at least `least_replicas` replicas have
  /// the whole state, and the application has applied all events below the position `applied`, and no later
  /// event is in the order. So `applied` is OrderedEvent::position + 1 of the last event that was applied, or
  /// the position of LoadState, or 0. If it is false, the application can try again a moment later, or
  /// refuse. Call it after the value was read and before the answer leaves: the process may have been stopped
  /// between the two, and another process may be the main now. It costs some nanoseconds.
  bool may_answer(std::uint64_t applied) const;
  /// Reports that the application has the state on disk with all events below `position`, so that it would
  /// give this state, or a later one, as ReplicatedStateOptions::stored after a loss of power. A loaded state
  /// is on disk when this was called with its position. Any thread may call this function.
  void persisted(std::uint64_t position);
  /// Decides that the state goes on from what this replica has, although no replica has the whole state. What
  /// it does not have is lost. Positions go on far above all earlier ones. A replica with the earlier state
  /// may still live, and may not know that the others have gone on without it. So all members that do not
  /// take part in the state at this moment are removed from the view, whatever they do there, and nothing
  /// becomes stable before their leases are over. A replica that gets the end of the earlier state at this
  /// moment ends. For an operator, or for an application that has the state on disk. Errors: invalid_argument
  /// unless the newest ReplicaStatus here has is_main and is_lost.
  Result<void> begin_anew();

 private:
  class Impl;
  explicit ReplicatedState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmc
