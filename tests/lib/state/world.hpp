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
  bool is_open(std::uint64_t newest) const override;

  World& world;
  const MemberId member;
  AgreedInput core;
  bool is_alive = true;
  bool has_ended = false;  // a Fault was reported
  // The group, as this process knows it.
  std::uint64_t epoch = 0;  // the newest open epoch here
  std::uint64_t delivered = 0, stable = 0;
  // The membership, as this process knows it.
  std::size_t view = 0;  // the number of views that were installed here
  Epoch leases_over{};
  // The application.
  std::deque<News> news;
  std::vector<Applied> state;
  std::map<std::string, std::uint64_t> unanswered;  // own events that are applied, and their positions
  StateStanding standing;
  std::optional<Load> load;
  bool has_begun = false;  // the replica has, or had, the whole state
  std::uint64_t submitted = 0;
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

  Process& add() {
    const MemberId id{processes.size() + 1};
    processes.push_back(std::make_unique<Process>(*this, id, least_));
    members_.push_back(id);
    return *processes.back();
  }
  Process& operator[](MemberId id) { return *processes[value_of(id) - 1]; }
  bool is_in_group(MemberId id) const { return std::ranges::find(group_, id) != group_.end(); }
  const std::vector<MemberId>& group() const { return group_; }
  std::size_t complete() {
    return static_cast<std::size_t>(std::ranges::count_if(group_, [&](MemberId id) {
      const Process& one = (*this)[id];
      return one.is_alive && one.standing.is_complete;
    }));
  }
  /// True if no replica of the group has the state.
  bool is_lost() {
    return std::ranges::none_of(group_, [&](MemberId id) {
      Process& one = (*this)[id];
      return one.is_alive && (one.standing.is_complete || one.load);
    });
  }

  // -- Faults --

  void kill(MemberId id) {
    (*this)[id].is_alive = false;
    ++deaths;
  }
  /// The group goes on without a member that lives and is in the view.
  void leave_out(MemberId id) {
    ++left_out;
    auto members = alive_in_group();
    std::erase(members, id);
    if (!members.empty()) begin_epoch(members);
  }
  void join() {
    add();
    install();
  }
  /// The view and the group follow the deaths and the joins.
  void repair() {
    std::erase_if(members_, [&](MemberId id) { return !(*this)[id].is_alive || removed_.contains(id); });
    if (views_.back().members.size() != members_.size()) install();
    std::vector<MemberId> members;
    for (const MemberId id : members_)
      if (!was_left_out_.contains(id)) members.push_back(id);
    if ((members != group_ || wish_) && !members.empty()) begin_epoch(members);
  }

  // -- Steps --

  void submit(MemberId id) {
    Process& one = (*this)[id];
    const std::string text = std::to_string(value_of(id)) + ":" + std::to_string(one.submitted + 1);
    Bytes bytes(text.size());
    std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
    bytes.resize(chance(20) ? 40'000 : bytes.size(), std::byte{' '});
    const auto number = one.core.submit(bytes);
    if (number) BOOST_REQUIRE_EQUAL(*number, ++one.submitted);
    go_on(one);
  }

  /// Does something at one random process.
  void step() {
    if (processes.empty()) return;
    Process& one = *processes[below(processes.size())];
    if (!one.is_alive) return;
    switch (below(8)) {
      case 0: return open(one);
      case 1: return deliver(one);
      case 2: return tell_stable(one);
      case 3: return deliver_note(one);
      case 4: return follow_view(one);
      case 5: return end_lease(one);
      case 6: return transfer(one);
      default: return take(one);
    }
  }
  template <typename Condition>
  void run_until(Condition condition, std::size_t most = 2'000'000) {
    for (std::size_t i = 0; i < most; ++i) {
      if (condition()) return;
      step();
    }
    BOOST_FAIL("the world does not come to rest" << describe());
  }
  std::string describe() {
    std::string text = ": epoch " + std::to_string(epoch_) + ", root " + std::to_string(value_of(root_)) +
                       ", " + std::to_string(log_.size()) + " messages";
    for (const MemberId id : group_) {
      const Process& one = (*this)[id];
      text += "\n  " + std::to_string(value_of(id)) + (one.is_alive ? "" : " dead") +
              (one.has_ended ? " ended" : "") + " epoch " + std::to_string(one.epoch) + " delivered " +
              std::to_string(one.delivered) + " stable " + std::to_string(one.stable) + " news " +
              std::to_string(one.news.size()) + " unanswered " + std::to_string(one.unanswered.size()) +
              (one.load ? " loads" : "") + (one.standing.is_complete ? " complete" : "") + " knows " +
              std::to_string(one.standing.complete_replicas) + " notes " + std::to_string(notes_[id].size()) +
              " own " + std::to_string(applied_of(one, id)) + " of " + std::to_string(one.submitted);
    }
    return text;
  }
  /// Runs until nothing is left to do.
  void settle() {
    repair();
    while (alive_in_group().size() < least_) {
      join();
      repair();
    }
    run_until([&, quiet = 0]() mutable {
      if (++quiet % 500 != 0) return false;
      repair();
      if (is_lost()) return true;
      return std::ranges::all_of(group_, [&](MemberId id) {
        Process& one = (*this)[id];
        return !one.is_alive || one.has_ended ||
               (one.news.empty() && one.unanswered.empty() && !one.load && one.standing.is_complete &&
                one.standing.complete_replicas == group_.size() && one.epoch == epoch_ &&
                one.delivered == log_.size() && one.stable == log_.size() && notes_[id].empty() &&
                applied_of(one, id) == one.submitted);
      });
    });
  }
  std::uint64_t applied_of(const Process& at, MemberId from) const {
    const std::string prefix = std::to_string(value_of(from)) + ":";
    return static_cast<std::uint64_t>(
        std::ranges::count_if(at.state, [&](const Applied& one) { return one.text.starts_with(prefix); }));
  }

  std::vector<std::unique_ptr<Process>> processes;
  std::set<std::string> answered;
  std::uint64_t deaths = 0, left_out = 0, transfers = 0, failed_transfers = 0, takeovers = 0, removals = 0;

 private:
  friend class Process;
  struct Snapshot {
    std::shared_ptr<const Bytes> head;
    std::vector<Applied> state;
  };

  std::vector<MemberId> alive_in_view() {
    std::vector<MemberId> alive;
    for (const MemberId id : members_)
      if ((*this)[id].is_alive) alive.push_back(id);
    return alive;
  }
  std::vector<MemberId> alive_in_group() {
    std::vector<MemberId> alive;
    for (const MemberId id : group_)
      if ((*this)[id].is_alive && !(*this)[id].has_ended) alive.push_back(id);
    return alive;
  }
  bool open_everywhere() {
    return std::ranges::all_of(group_, [&](MemberId id) { return (*this)[id].epoch == epoch_; });
  }

  /// Does what each caller of the core must do.
  void go_on(Process& one) {
    now_ += static_cast<std::int64_t>(below(1000));
    // The clocks of the processes differ, and go back now and then.
    one.core.order(now_ + static_cast<std::int64_t>(below(5000)), random_());
    for (News& next : one.core.take_news()) {
      if (std::holds_alternative<StableEvents>(next) && takes_part(one)) {
        check_nobody_else_answers(one);
        // A member that dies stays in the group for a while.
        const auto has_state = [&](MemberId id) { return !(*this)[id].load && (*this)[id].has_begun; };
        BOOST_REQUIRE(std::ranges::count_if(group_, has_state) >= static_cast<std::ptrdiff_t>(least_));
      }
      one.news.push_back(std::move(next));
    }
  }

  void install() {
    View view{.epoch = Epoch{views_.size() + 1}, .members = {}};
    for (const MemberId id : members_)
      view.members.push_back({.id = id, .name = {}, .address = {}, .since = {}});
    views_.push_back(std::move(view));
  }

  /// The survivors continue the group. What happens follows rdmc/group.hpp.
  void begin_epoch(std::vector<MemberId> members) {
    for (const MemberId id : group_)
      if (std::ranges::find(members, id) == members.end() && (*this)[id].is_alive) was_left_out_.insert(id);
    const bool stays = std::ranges::find(members, root_) != members.end();
    std::uint64_t least = next_;
    for (const MemberId id : members) least = std::max(least, was_member(id) ? (*this)[id].stable : 0);
    for (const MemberId id : members)
      if (id != root_ && was_member(id)) least = std::max(least, (*this)[id].delivered);
    MemberId root = stays ? root_ : members.front();
    if (!stays && root_ != MemberId{}) ++takeovers;
    if (wish_ && std::ranges::find(members, *wish_) != members.end()) root = *wish_;
    wish_.reset();
    next_ = stays && root != root_ ? log_.size() : least + below(log_.size() - least + 1);
    if (root != root_ || !stays) log_.resize(next_);
    // Every survivor gets the messages below next_. Who joins gets no earlier message.
    for (const MemberId id : members) {
      Process& one = (*this)[id];
      if (!was_member(id)) {
        one.delivered = next_;
      } else if (id != root_) {
        while (one.delivered < next_ && !one.has_ended) receive(one);
      } else if (root != root_) {
        one.delivered = next_;
      }
    }
    group_ = std::move(members);
    root_ = root;
    ++epoch_;
    notes_.clear();
  }
  bool was_member(MemberId id) { return (*this)[id].epoch != 0; }

  void receive(Process& one) {
    one.core.on_message(one.delivered, log_[one.delivered]);
    ++one.delivered;
    go_on(one);
  }

  /// The epoch opens at the root first.
  void open(Process& one) {
    if (one.has_ended || !is_in_group(one.member) || one.epoch == epoch_) return end_part(one);
    if (one.member != root_ && (*this)[root_].epoch != epoch_) return;
    one.epoch = epoch_;
    one.stable = next_;
    if (one.member == root_) one.delivered = log_.size();
    if (next_ == 0) one.has_begun = true;
    one.core.on_stable(next_);  // The group says this before it says that it goes on.
    go_on(one);
    one.core.on_continued({.epoch = epoch_, .members = group_, .root = root_, .next = next_});
    go_on(one);
  }
  /// A member that was left out learns this at some time, or never.
  void end_part(Process& one) {
    if (!was_left_out_.contains(one.member) || one.has_ended || !chance(20)) return;
    one.core.end({Errc::peer_failed, "left out"});
    go_on(one);
  }
  bool takes_part(const Process& one) const {
    return !one.has_ended && one.epoch == epoch_ && is_in_group(one.member);
  }
  void deliver(Process& one) {
    if (takes_part(one) && one.member != root_ && one.delivered < log_.size()) receive(one);
  }
  void tell_stable(Process& one) {
    if (!takes_part(one)) return;
    std::uint64_t stable = log_.size();
    for (const MemberId id : group_) stable = std::min(stable, std::max((*this)[id].delivered, next_));
    if (stable <= one.stable) return;
    one.stable += 1 + below(stable - one.stable);
    one.core.on_stable(one.stable);
    go_on(one);
  }
  void deliver_note(Process& one) {
    auto& notes = notes_[one.member];
    Process& root = (*this)[root_];
    if (notes.empty() || !root.is_alive || root.epoch != epoch_) return;
    const Bytes note = notes.front();
    notes.pop_front();
    root.core.on_note(one.member, note);
    go_on(root);
  }

  void follow_view(Process& one) {
    if (one.view == views_.size()) return;
    const View& next = views_[one.view];
    ++one.view;
    if (next.find(one.member) == nullptr) return;
    one.core.on_view(next);
    go_on(one);
  }
  /// The lease of a process that is in no view any more ends at some time. A process learns that the leases
  /// in the views before its own have ended when they have.
  void end_lease(Process& one) {
    for (const auto& other : processes)
      if (views_.back().find(other->member) == nullptr && chance(3)) ended_leases_.insert(other->member);
    if (one.view == 0) return;
    const View& view = views_[one.view - 1];
    for (const auto& other : processes) {
      const bool was_in_view = std::any_of(views_.begin(), views_.begin() + static_cast<long>(one.view),
                                           [&](const View& old) { return old.find(other->member); });
      if (was_in_view && view.find(other->member) == nullptr && !ended_leases_.contains(other->member))
        return;
    }
    if (view.epoch <= one.leases_over) return;
    one.leases_over = view.epoch;
    one.core.on_leases_over(view.epoch);
    go_on(one);
  }

  void transfer(Process& one) {
    if (!one.load || one.has_ended) return;
    const auto found = snapshots_.find(one.load->serial);
    const bool has_donor = is_in_group(one.load->from) && (*this)[one.load->from].is_alive;
    if (chance(4) && (found == snapshots_.end() ? !has_donor : chance(4))) {
      ++failed_transfers;
      const auto serial = one.load->serial;
      one.load.reset();
      one.core.load_failed(serial);
    } else if (found != snapshots_.end()) {
      const auto head = decode_snapshot_head(*found->second.head);
      BOOST_REQUIRE(head.has_value());
      const auto serial = one.load->serial;
      one.load.reset();
      if (one.core.loaded(serial, *head)) {
        ++transfers;
        one.has_begun = true;
        one.state = found->second.state;
      }
    }
    go_on(one);
  }

  /// The application takes one piece of news.
  void take(Process& one) {
    if (one.news.empty()) return;
    News next = std::move(one.news.front());
    one.news.pop_front();
    std::visit([&](auto& news) { handle(one, news); }, next);
  }
  void handle(Process& one, OrderedEvent& event) {
    std::string text(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
    text.erase(text.find_last_not_of(' ') + 1);
    const Applied applied{event.position, event.time, event.random, text};
    if (!one.state.empty()) {
      BOOST_REQUIRE(one.state.back().position < event.position);
      BOOST_REQUIRE(one.state.back().time <= event.time);
    }
    one.state.push_back(applied);
    const bool is_own = text.starts_with(std::to_string(value_of(one.member)) + ":");
    BOOST_REQUIRE_EQUAL(is_own, event.own_number != 0);
    if (is_own) one.unanswered[text] = event.position;
    if (was_left_out_.contains(one.member)) return;  // What it puts into the order now is void.
    const auto [known, is_new] = order_.try_emplace(event.position, applied);
    // What only processes have applied that are gone may be replaced.
    if (!is_new && !(known->second == applied)) {
      for (const auto& other : processes)
        if (other->is_alive && !other->has_ended && takes_part(*other) && other->standing.is_complete)
          for (const Applied& theirs : other->state)
            BOOST_REQUIRE(theirs.position != event.position || theirs == applied);
      BOOST_REQUIRE_MESSAGE(!answered.contains(known->second.text) || known->second.text == applied.text,
                            "an answered event was replaced");
      known->second = applied;
    }
  }
  void handle(Process& one, const StableEvents& stable) {
    std::erase_if(one.unanswered, [&](const auto& event) {
      if (event.second < stable.position) answered.insert(event.first);
      return event.second < stable.position;
    });
  }
  /// No process outside of the group may believe that it can still answer reads.
  void check_nobody_else_answers(const Process& one) {
    for (const auto& other : processes) {
      if (is_in_group(other->member) || !other->is_alive || other->has_ended) continue;
      const bool answers =
          other->standing.is_main && other->core.may_commit() && !ended_leases_.contains(other->member);
      BOOST_REQUIRE_MESSAGE(!answers, "member " << value_of(other->member) << " still answers while "
                                                << value_of(one.member) << " goes on");
    }
  }
  void handle(Process& one, const StateStanding& standing) { one.standing = standing; }
  void handle(Process& one, Save& save) { snapshots_[save.serial] = {std::move(save.head), one.state}; }
  void handle(Process&, const SaveOver&) {}
  void handle(Process& one, const Load& load) {
    one.state.clear();
    one.load = load;
  }
  void handle(Process& one, const Fault& fault) {
    BOOST_REQUIRE_MESSAGE(fault.cause.code == Errc::peer_failed, fault.cause.what);
    one.has_ended = true;
  }

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
  std::vector<MemberId> group_;
  MemberId root_{};
  std::optional<MemberId> wish_;
  std::set<MemberId> was_left_out_;
  std::vector<std::shared_ptr<const Bytes>> log_;
  std::map<MemberId, std::deque<Bytes>> notes_;
};

inline Result<std::uint64_t> Process::send(std::shared_ptr<const Bytes> message) {
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
  return world.epoch_ == newest && epoch == newest;
}

}  // namespace rdmc::state::testing
