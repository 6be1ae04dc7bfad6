// Replicas of a state in memory. The world plays the group and the membership: it delivers messages and notes
// at random times, and members die, are left out of the group, and join. It keeps to what MemberGroup and
// Membership promise, and to nothing more. It checks what AgreedInput promises, and is a function of its seed
// and of the calls. One thread uses it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "apps/sim/state_process.hpp"

namespace rdmc::sim_app {

/// Whether the processes keep the state on disks, and whether events become stable only there.
enum class Disks : std::uint8_t { none, lazy, awaited };

class StateWorld {
 public:
  /// `least` is the number of replicas without which nothing becomes stable. `first_replicas` is only for a
  /// world with disks.
  StateWorld(std::uint64_t seed, std::size_t least, Disks with = Disks::none, std::size_t first_replicas = 1)
      : disks(with), random_(seed), least_(least), first_replicas_(first_replicas) {}

  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  /// The time of the world in nanoseconds since 1970.
  std::int64_t now() const { return now_; }
  void pass(std::int64_t nanoseconds) { now_ += nanoseconds; }

  /// Adds one of the processes that begin the state.
  StateProcess& add(StateApplication* application = nullptr);
  /// Begins the group with the processes that were added.
  void start();

  StateProcess& operator[](MemberId id) { return *processes[value_of(id) - 1]; }
  bool is_in_group(MemberId id) const { return std::ranges::find(group_, id) != group_.end(); }
  const std::vector<MemberId>& group() const { return group_; }
  MemberId root() const { return root_; }
  /// The members of the group that live and have the state.
  std::size_t complete();
  /// True if another member of the group lives, and has taken part in an epoch.
  bool has_another(MemberId than);
  /// True if as many members of the group live as must have the state.
  bool has_enough() { return alive_in_group().size() >= least_; }
  /// True if no replica of the group has the state.
  bool is_lost();

  // -- Faults --

  void kill(MemberId id);
  /// The process ends its membership by itself.
  void leave(MemberId id);
  /// The group goes on without a member that lives and is in the view.
  void leave_out(MemberId id);
  /// Adds a process that opens the state later.
  StateProcess& join(StateApplication* application = nullptr);
  /// Starts a process again that has died, with what its disk has. Only in a world with disks.
  StateProcess& restart(MemberId id);
  /// Removes everything from the disk of a process that has died.
  void wipe(MemberId id);
  /// True if the process was started again.
  bool is_replaced(MemberId id) const { return replaced_.contains(id); }
  /// The view and the group follow the deaths and the joins. Nothing happens while a member that takes part
  /// is paused.
  void repair();
  /// If the state is lost and the main knows it, its application decides that the state goes on.
  void begin_anew();
  /// This number of transfers fails. Besides, one transfer in `transfers_fail_one_in` fails, unless it is 0.
  std::uint64_t failing_transfers = 0, transfers_fail_one_in = 16;

  // -- Steps --

  /// Does something at one random process.
  void step();
  /// Takes steps until the condition holds. It is a violation if this takes more than `most` steps.
  template <typename Condition>
  void run_until(Condition condition, std::size_t most = 2'000'000) {
    for (std::size_t i = 0; i < most; ++i) {
      if (condition()) return;
      step();
    }
    violation("the world does not come to rest" + describe());
  }
  std::string describe();
  /// True if nothing is left to do in the group.
  bool is_settled();
  /// Runs until nothing is left to do, or until the state is lost.
  void settle();
  /// The number of events of `from` that `at` has applied.
  std::uint64_t applied_of(const StateProcess& at, MemberId from) const {
    return static_cast<std::uint64_t>(
        std::ranges::count(at.applied, from, [](const AppliedEvent& one) { return one.id.from; }));
  }

  const Disks disks;
  std::vector<std::unique_ptr<StateProcess>> processes;
  /// The events that their submitters have seen stable.
  std::set<EventId> answered;
  std::vector<std::string> violations;
  void violation(std::string what);
  std::uint64_t deaths = 0, left_out = 0, transfers = 0, failed_transfers = 0, takeovers = 0, removals = 0,
                begun_anew = 0, restarts = 0, begun_from_disks = 0;

 private:
  friend class StateProcess;
  struct Snapshot {
    std::shared_ptr<const state::Bytes> head;
    state::Bytes state;  // of the application
    std::vector<AppliedEvent> applied;
    std::uint64_t begun_anew = 0;
  };

  StateProcess& add(StateDisk disk, StateApplication* application);
  void begin_group();
  void check_disks_have(const StateProcess& one, std::uint64_t position);
  void write_to_disk(StateProcess& one);
  std::vector<MemberId> alive_in_view();
  std::vector<MemberId> alive_in_group();
  bool open_everywhere();

  /// Does what each caller of the core must do.
  void go_on(StateProcess& one);
  void install();

  /// The survivors continue the group. What happens follows rdmc/group.hpp.
  void begin_epoch(std::vector<MemberId> members);
  bool is_left_out(MemberId id) const { return was_left_out_.contains(id); }
  bool was_member(MemberId id) { return (*this)[id].epoch != 0; }

  void receive(StateProcess& one);

  /// The epoch opens at the root first.
  void open(StateProcess& one);
  /// A member that was left out learns this at some time, or never.
  void end_part(StateProcess& one);
  bool takes_part(const StateProcess& one) const {
    return !one.has_ended && one.epoch == epoch_ && is_in_group(one.member);
  }
  void deliver(StateProcess& one);
  void tell_stable(StateProcess& one);
  void deliver_note(StateProcess& one);

  void follow_view(StateProcess& one);
  /// The lease of a process that is in no view any more ends at some time. A process learns that the leases
  /// in the views before its own have ended when they have.
  void end_lease(StateProcess& one);

  void transfer(StateProcess& one);
  bool does_transfer_fail(bool has_snapshot, bool has_donor);
  void load(StateProcess& one, const state::Bytes& state, std::uint64_t position);

  /// The application takes one change.
  void take(StateProcess& one);
  void handle(StateProcess& one, OrderedEvent& event);
  void note_applied(StateProcess& one, const AppliedEvent& applied);
  void handle(StateProcess& one, const StableEvents& stable);
  /// No process outside of the group may believe that it can still answer reads.
  void check_nobody_else_answers(const StateProcess& one);
  void handle(StateProcess& one, const ReplicaStatus& status);
  void handle(StateProcess& one, state::Save& save);
  void handle(StateProcess&, const state::SaveOver&) {}
  void handle(StateProcess& one, const state::Load& load);
  void handle(StateProcess& one, const state::Fault& fault);

  std::mt19937_64 random_;
  const std::size_t least_, first_replicas_;
  std::int64_t now_ = 1'000'000;
  std::map<std::uint64_t, AppliedEvent> order_;
  std::map<std::uint64_t, Snapshot> snapshots_;
  std::vector<StateProcess*> alive_;
  std::set<MemberId> replaced_;

  // The membership.
  std::vector<MemberId> members_;
  std::vector<View> views_;
  std::set<MemberId> removed_, ended_leases_;

  // The group.
  std::uint64_t epoch_ = 0, next_ = 0;
  std::size_t epoch_view_ = 0;  // the number of views when the epoch was begun
  std::vector<MemberId> group_;
  MemberId root_{};
  std::optional<MemberId> wish_;
  std::set<MemberId> was_left_out_;
  std::vector<std::shared_ptr<const state::Bytes>> log_;
  std::map<MemberId, std::deque<state::Bytes>> notes_;
};

}  // namespace rdmc::sim_app
