// Replicas of a state in memory. The world plays the group and the membership: it delivers messages and notes
// at random times, and members die, are left out of the group, and join. It keeps to what MemberGroup and
// Membership promise, and to nothing more.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/state/agreed_input.hpp"

namespace rdmc::state::testing {

struct Applied {
  std::uint64_t position = 0;
  std::int64_t time = 0;
  std::uint64_t random = 0;
  std::string text;
  friend bool operator==(const Applied&, const Applied&) = default;
};

class World;

/// One process with one replica.
class Process final : public Outlet {
 public:
  Process(World& its_world, MemberId id, std::size_t least)
      : world(its_world),
        member(id),
        core({.member = id, .id = ReplicaId{value_of(id) + 1000}, .least_replicas = least}, *this) {}

  Result<std::uint64_t> send(std::shared_ptr<const Bytes> message) override;
  Result<void> tell_main(const Bytes& note) override;
  void hand_over(MemberId to) override;
  void remove(MemberId other) override;
  bool has_space() const override { return true; }
  bool is_open(std::uint64_t newest) const override;

  World& world;
  const MemberId member;
  AgreedInput core;
  bool is_alive = true;
  bool has_ended = false;  // a Fault was reported
  // The group, as this process knows it.
  std::uint64_t epoch = 0;  // the newest open epoch here
  bool is_root = false;     // in this epoch
  std::uint64_t delivered = 0, stable = 0;
  // The membership, as this process knows it.
  std::size_t view = 0;  // the number of views that were installed here
  Epoch leases_over{};
  // The application.
  std::deque<Change> changes;
  std::vector<Applied> state;
  std::map<std::string, std::uint64_t> unanswered;  // own events that are applied, and their positions
  ReplicaStatus status;
  std::optional<Load> load;
  bool has_begun = false;  // the replica has, or had, the whole state
  std::uint64_t submitted = 0;
  std::uint64_t begun_anew = 0;  // the value of World::begun_anew from which its state comes
};

class World {
 public:
  World(std::uint64_t seed, std::size_t count, std::size_t least) : random_(seed), least_(least) {
    for (std::size_t i = 0; i < count; ++i) add();
    install();
    begin_epoch(alive_in_view());
    run_until([&] { return open_everywhere(); });
  }

  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }

  Process& add();
  Process& operator[](MemberId id) { return *processes[value_of(id) - 1]; }
  bool is_in_group(MemberId id) const { return std::ranges::find(group_, id) != group_.end(); }
  const std::vector<MemberId>& group() const { return group_; }
  std::size_t complete();
  /// True if another member of the group lives, and has taken part in an epoch.
  bool has_another(MemberId than);
  /// True if no replica of the group has the state.
  bool is_lost();

  // -- Faults --

  void kill(MemberId id);
  /// The group goes on without a member that lives and is in the view.
  void leave_out(MemberId id);
  void join();
  /// The view and the group follow the deaths and the joins.
  void repair();
  /// If the state is lost and the main knows it, its application decides that the state goes on.
  void begin_anew();

  // -- Steps --

  void submit(MemberId id);
  /// Does something at one random process.
  void step();
  template <typename Condition>
  void run_until(Condition condition, std::size_t most = 2'000'000) {
    for (std::size_t i = 0; i < most; ++i) {
      if (condition()) return;
      step();
    }
    BOOST_FAIL("the world does not come to rest" << describe());
  }
  std::string describe();
  /// Runs until nothing is left to do.
  void settle();
  std::uint64_t applied_of(const Process& at, MemberId from) const {
    const std::string prefix = std::to_string(value_of(from)) + ":";
    return static_cast<std::uint64_t>(
        std::ranges::count_if(at.state, [&](const Applied& one) { return one.text.starts_with(prefix); }));
  }

  std::vector<std::unique_ptr<Process>> processes;
  std::set<std::string> answered;
  std::uint64_t deaths = 0, left_out = 0, transfers = 0, failed_transfers = 0, takeovers = 0, removals = 0,
                begun_anew = 0;

 private:
  friend class Process;
  struct Snapshot {
    std::shared_ptr<const Bytes> head;
    std::vector<Applied> state;
    std::uint64_t begun_anew = 0;
  };

  std::vector<MemberId> alive_in_view();
  std::vector<MemberId> alive_in_group();
  bool open_everywhere();

  /// Does what each caller of the core must do.
  void go_on(Process& one);
  void install();

  /// The survivors continue the group. What happens follows rdmc/group.hpp.
  void begin_epoch(std::vector<MemberId> members);
  bool is_left_out(MemberId id) const { return was_left_out_.contains(id); }
  bool was_member(MemberId id) { return (*this)[id].epoch != 0; }

  void receive(Process& one);

  /// The epoch opens at the root first.
  void open(Process& one);
  /// A member that was left out learns this at some time, or never.
  void end_part(Process& one);
  bool takes_part(const Process& one) const {
    return !one.has_ended && one.epoch == epoch_ && is_in_group(one.member);
  }
  void deliver(Process& one);
  void tell_stable(Process& one);
  void deliver_note(Process& one);

  void follow_view(Process& one);
  /// The lease of a process that is in no view any more ends at some time. A process learns that the leases
  /// in the views before its own have ended when they have.
  void end_lease(Process& one);

  void transfer(Process& one);

  /// The application takes one change.
  void take(Process& one);
  void handle(Process& one, OrderedEvent& event);
  void handle(Process& one, const StableEvents& stable);
  /// No process outside of the group may believe that it can still answer reads.
  void check_nobody_else_answers(const Process& one);
  void handle(Process& one, const ReplicaStatus& status) { one.status = status; }
  void handle(Process& one, Save& save) {
    snapshots_[save.serial] = {std::move(save.head), one.state, one.begun_anew};
  }
  void handle(Process&, const SaveOver&) {}
  void handle(Process& one, const Load& load);
  void handle(Process& one, const Fault& fault);

  std::mt19937_64 random_;
  const std::size_t least_;
  std::int64_t now_ = 1'000'000;
  std::map<std::uint64_t, Applied> order_;
  std::map<std::uint64_t, Snapshot> snapshots_;

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
  std::vector<std::shared_ptr<const Bytes>> log_;
  std::map<MemberId, std::deque<Bytes>> notes_;
};

inline Result<std::uint64_t> Process::send(std::shared_ptr<const Bytes> message) {
  // A root that was left out puts events into an order that nobody else gets.
  if (is_root && world.is_left_out(member) && !has_ended) return delivered++;
  if (!world.takes_part(*this) || world.root_ != member)
    return rdmc::fail(Errc::would_block, "not the root of an open epoch");
  // A full queue has room again when a message has become stable.
  if (stable < world.log_.size() && world.chance(5)) return rdmc::fail(Errc::would_block, "full");
  world.log_.push_back(std::move(message));
  delivered = world.log_.size();
  return world.log_.size() - 1;
}
inline Result<void> Process::tell_main(const Bytes& note) {
  if (!world.takes_part(*this)) return rdmc::fail(Errc::would_block, "no open epoch");
  world.notes_[member].push_back(note);
  return {};
}
inline void Process::hand_over(MemberId to) {
  if (world.takes_part(*this)) world.wish_ = to;
}
inline void Process::remove(MemberId other) {
  if (world.removed_.insert(other).second) ++world.removals;
}
inline bool Process::is_open(std::uint64_t newest) const {
  return epoch == newest && (world.epoch_ == newest || world.is_left_out(member));
}

}  // namespace rdmc::state::testing
