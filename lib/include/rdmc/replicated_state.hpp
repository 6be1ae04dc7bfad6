// A state that several processes keep alike, for services that must survive the death of a process. All
// processes of a membership (rdmc/membership.hpp) that open the state with the same number are its replicas.
// Each replica submits events, for example the requests of its clients. All replicas get the same events in
// the same order, and apply them. So their states are the same, if the application is deterministic: the new
// state and the answer must follow only from the old state and the event.
//
// Two rules make sure that nothing is lost that a client has heard of:
//   - An answer that follows from an event must not leave before StableEvents has reported the position of
//   the
//     event. Every replica has the event then (output commit).
//   - Only the main may answer a read that is not an event. It reads the value, then calls may_answer(), and
//   then
//     sends the answer. If the value follows from an event that is not stable, the answer waits for that,
//     too.
//
// One replica is the main: it decides the order of events. If it dies, another one goes on. Applications do
// not notice that, except for a pause. Events that the dead main has not put into the order yet are submitted
// again by the library, and are applied once.
//
// A process that opens the state later gets it from another replica, while the service goes on.
//
//     auto state = rdmc::ReplicatedState::open(*membership, {.number = rdmc::GroupNumber{1}});
//     (*state)->submit(request);
//     while (auto news = (*state)->take(rdmc::milliseconds(100))) ...  // apply, answer, save, load
//
// Threads: any thread may call any function, but take() gives each piece of news to one caller only, so one
// thread should call it.
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

struct ReplicatedStateOptions {
  /// The number of the state, below 2^31. All replicas use the same number. A membership has one series of
  /// numbers for its states and its groups: a state uses the group of the same number, and groups above 2^63
  /// for the time in which a replica gets the state.
  GroupNumber number{};
  /// The state begins when this number of replicas have opened it, with no event and with what the
  /// application has at that time. Replicas that come later get the state from another one. If all replicas
  /// die, the state is lost, and the next replicas begin a new one.
  std::size_t first_replicas = 1;
  /// No event becomes stable while fewer replicas than this have the whole state. 0 means a majority of
  /// `first_replicas`. With a majority of all replicas that there will ever be at one time, no event that was
  /// stable is lost when some of the processes cannot reach the others for a while.
  std::size_t least_replicas = 0;
  /// When this number of bytes of events and of loaded state wait for take(), the replica accepts no more.
  /// The main then gets slower. Applications that save their state in one go should choose a value that is
  /// larger than what arrives in that time.
  std::size_t most_waiting_bytes = 256 << 20;
  /// Called on a thread of the library when take() has something. It must not block, and must not call the
  /// state. It is for applications that wait for other things, too.
  std::function<void()> on_news{};
};

/// An event in its place in the order. All replicas get the same values, except for `own_number`.
struct OrderedEvent {
  /// The position in the order. Positions increase, but not always by one.
  std::uint64_t position = 0;
  /// The number that submit() has returned, if this replica has submitted the event, and 0 otherwise.
  std::uint64_t own_number = 0;
  /// The agreed time in nanoseconds since 1970. It is the clock of the main, and never goes back.
  std::int64_t time = 0;
  /// An agreed random number.
  std::uint64_t random = 0;
  std::span<const std::byte> bytes{};
  std::shared_ptr<const std::vector<std::byte>> keeper{};  ///< the bytes are valid while this exists
};

/// Answers may leave that follow from events below this position.
struct StableEvents {
  std::uint64_t position = 0;
};

/// The part of this replica in the service. It is reported whenever it changes.
struct StateStanding {
  bool is_main = false;
  bool is_complete = false;  ///< this replica has the whole state
  /// No replica in the group has the whole state. The service cannot go on until one of them is back.
  bool is_lost = false;
  std::uint32_t complete = 0;  ///< the number of replicas that have the whole state

  friend bool operator==(const StateStanding&, const StateStanding&) = default;
};

/// Sends the state of this replica to another one. A copy of the handle may be kept, so that the application
/// can write its state in several steps. Any thread may call any function.
class StateWriter {
 public:
  /// Adds bytes to what the other replica gets. Up to 4 MB are not copied. All of them together must describe
  /// the state as it was when SaveState was taken: after all events before it, and without any event after
  /// it.
  void write(std::vector<std::byte> bytes);
  /// Must be called after the last write(). If the last copy of the handle is destroyed before, the other
  /// replica gets the state from another replica, or from this one again.
  void finish();
  /// The number of bytes that were written and not sent yet. An application with a large state should write
  /// more when only a few megabytes wait. The value is 0 if the other replica needs the state no more.
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
};

/// A part of the state of another replica.
struct LoadState {
  enum class Step : std::uint8_t {
    begin,  ///< The application must drop what it has. This can happen again before `end`.
    bytes,  ///< These bytes follow. They are those of write(), in the same order, but perhaps in other
            ///< pieces.
    end     ///< The state is complete.
  };
  Step step{};
  std::span<const std::byte> bytes{};
  std::shared_ptr<const std::vector<std::byte>> keeper{};
};

/// This replica does not take part any more: the membership has ended, the others have gone on without this
/// replica, or there was no memory. This is the last news. The application may open the state again.
struct StateEnded {
  Error cause;
};

using StateNews = std::variant<OrderedEvent, StableEvents, StateStanding, SaveState, LoadState, StateEnded>;

class ReplicatedState {
 public:
  /// The maximum length of an event.
  static constexpr std::size_t kMostEventBytes = kMostNote - 32;

  /// Takes part in the state. `membership` must exist longer. Its option `lease` should be set, because
  /// without a lease may_answer() is always false. Must not be called in an upcall. Errors: invalid_argument
  /// if an option is not valid, and those of Membership::create_group.
  static Result<std::unique_ptr<ReplicatedState>> open(Membership& membership,
                                                       const ReplicatedStateOptions& options);
  /// Leaves. The others go on, and remove this process from the view, because they cannot know whether it
  /// still answers. Must not be called in an upcall.
  ~ReplicatedState();
  ReplicatedState(const ReplicatedState&) = delete;
  ReplicatedState& operator=(const ReplicatedState&) = delete;

  /// Submits an event. The library copies it. Returns its number: 1 for the first event of this replica, and
  /// so on. take() returns the event in its place in the order, also at this replica. Errors:
  /// invalid_argument if the event is longer than kMostEventBytes; would_block if this replica does not have
  /// the state yet, or if too many events wait; cancelled if StateEnded was reported.
  Result<std::uint64_t> submit(std::span<const std::byte> event);
  /// Returns the next news. Waits for it, for at most `longest`.
  std::optional<StateNews> take(Duration longest = {});
  /// True if this replica is the main, and nobody else can be: it may answer reads. The check must come after
  /// the value was read, because the process may have been stopped before. It costs some nanoseconds.
  bool may_answer() const;

 private:
  class Impl;
  explicit ReplicatedState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmc
