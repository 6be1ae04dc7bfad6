// One process in a StateWorld: the core of its replica, what it knows about the group and the membership, and
// the changes that its application has not taken yet. One thread uses it.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lib/state/agreed_input.hpp"

namespace rdmc::sim_app {

class StateWorld;

/// What the application of a process does with the state. The functions follow rdmc/replicated_state.hpp.
class StateApplication {
 public:
  virtual ~StateApplication() = default;
  virtual void on_event(const OrderedEvent& event) = 0;
  virtual void on_stable(const StableEvents& stable) = 0;
  virtual void on_status(const ReplicaStatus& status) = 0;
  /// Returns the present state.
  virtual state::Bytes save() = 0;
  /// Gets the state of another process. Can begin again before `end`.
  virtual void on_load(const LoadState& load) = 0;
  /// This process does not take part any more.
  virtual void on_end(const Error& cause) = 0;
};

/// Names an event: the member that has submitted it, and its number there.
struct EventId {
  MemberId from{};
  std::uint64_t number = 0;
  friend auto operator<=>(const EventId&, const EventId&) = default;
};

/// An event that a process has applied.
struct AppliedEvent {
  std::uint64_t position = 0;
  std::uint64_t epoch = 0;
  std::int64_t time = 0;
  std::uint64_t random = 0;
  EventId id;
  friend bool operator==(const AppliedEvent&, const AppliedEvent&) = default;
};

/// The state that the disk of a process has after a loss of power.
struct StateDisk {
  StoredState stored;
  std::vector<AppliedEvent> applied;
  std::set<std::uint64_t> wiped;  // the positions of the events that it had when it was wiped
};

class StateProcess final : public state::Outlet {
 public:
  /// The application may be null. It must exist as long as the process is alive.
  StateProcess(StateWorld& its_world, state::AgreedInput::Config config, StateApplication* its_application)
      : world(its_world),
        member(config.member),
        application(its_application),
        first_replicas(config.first_replicas),
        core(config, *this) {}

  /// For the application: has the meaning of the functions of ReplicatedState.
  Result<std::uint64_t> submit(std::span<const std::byte> bytes);
  bool may_answer(std::uint64_t position) const;

  Result<std::uint64_t> send(std::shared_ptr<const state::Bytes> message) override;
  Result<void> tell_main(const state::Bytes& note) override;
  void hand_over(MemberId to) override;
  void remove(MemberId other) override;
  bool has_space() const override { return true; }
  bool is_open(std::uint64_t newest) const override;

  bool is_paused() const;

  StateWorld& world;
  const MemberId member;
  StateApplication* const application;
  const std::size_t first_replicas;
  state::AgreedInput core;
  bool is_alive = true;
  bool has_ended = false;                         // a Fault was reported
  std::int64_t clock_ahead = 0;                   // of this process, in nanoseconds; may be negative
  std::int64_t paused_until = 0, slow_until = 0;  // until then: no step at all, or the application takes none
  // The group, as this process knows it.
  std::uint64_t epoch = 0;  // the newest open epoch here
  bool is_root = false;     // in this epoch
  std::uint64_t delivered = 0, stable = 0;
  // The membership, as this process knows it.
  std::size_t view = 0;  // the number of views that were installed here
  Epoch leases_over{};
  // The application.
  std::deque<state::Change> changes;
  std::vector<AppliedEvent> applied;
  std::map<EventId, std::uint64_t> unanswered;  // own events that are applied, and their positions
  std::uint64_t ordered = 0;                    // the position after the last event in `changes`
  ReplicaStatus status;
  std::optional<state::Load> load;
  StateDisk disk;             // in a world with disks
  StoredState base;           // the place of the state in memory without the events of `applied` after it
  std::size_t in_base = 0;    // the first events of `applied`, which are in this state
  std::size_t persisted = 0;  // events of `applied` that are on the disk
  bool has_begun = false;     // the replica has, or had, the whole state
  std::uint64_t submitted = 0;
  std::uint64_t begun_anew = 0;  // the value of StateWorld::begun_anew from which its state comes
};

}  // namespace rdmc::sim_app
