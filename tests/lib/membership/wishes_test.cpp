// Tests one-time requests for another root. The coordinator changes now and then. The reports of different
// members reach the present coordinator in a random order.
#include "lib/membership/wishes.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <set>

#include "lib/membership/coordination.hpp"

BOOST_AUTO_TEST_SUITE(wishes_test)

using namespace rdmc;
using namespace rdmc::member_groups;

namespace {

constexpr GroupNumber kGroup{7};

std::size_t below(std::size_t count) {
  return *rc::gen::inRange<std::size_t>(0, count);
}

/// A group of four members whose root is always drained. The coordinator of the group changes now and then.
class Model {
 public:
  Model() {
    for (std::uint64_t id = 1; id <= 4; ++id) order_.push_back(MemberId{id});
    for (const MemberId member : order_) {
      GroupState& state = members_[member].state;
      state = {.group = kGroup,
               .stage = Stage::open,
               .epoch = 1,
               .root = order_.front(),
               .participants = order_,
               .is_drained = true};
      for (const MemberId other : order_)
        if (other != member) state.connected.push_back(other);
    }
    change_coordinator();
  }

  void step() {
    const MemberId member = order_[below(order_.size())];
    switch (below(8)) {
      case 0: return wish(member);
      case 1: return change_coordinator();
      case 2: return decide_now();
      case 3: return hear_of_epoch(member);
      default: return arrive(member);
    }
  }

 private:
  struct Member {
    GroupState state;
    std::deque<GroupState> said;  ///< reports that are on their path to the coordinator
    std::deque<NewEpoch> told;    ///< epochs that are on their path from the coordinator to the member
  };
  /// A request that has reached the present coordinator.
  struct Wish {
    MemberId by;
    std::uint64_t number;
    MemberId root;
  };

  void wish(MemberId by) {
    GroupState& state = members_[by].state;
    state.wish = order_[below(order_.size())];
    state.wish_number = ++last_number_;
    members_[by].said.push_back(state);
  }
  void arrive(MemberId member) {
    auto& said = members_[member].said;
    if (said.empty()) return;
    const GroupState state = said.front();
    said.pop_front();
    told_[member] = state;
    wishes_.note(member, State{.view = {}, .groups = {state}});
    if (!state.wish || is_over_.contains(state.wish_number) || settled_.contains(state.wish_number)) return;
    const auto is_same = [&](const Wish& wish) { return wish.number == state.wish_number; };
    if (std::ranges::none_of(arrived_, is_same)) arrived_.push_back({member, state.wish_number, *state.wish});
  }
  /// Changes the coordinator. The new coordinator knows nothing. All messages in flight to and from the
  /// former one are lost.
  void change_coordinator() {
    wishes_ = {};
    told_.clear();
    arrived_.clear();
    settled_.clear();
    begun_.reset();
    for (auto& [id, member] : members_) {
      member.told.clear();
      member.said = {member.state};
    }
  }
  void hear_of_epoch(MemberId id) {
    Member& member = members_[id];
    if (member.told.empty()) return;
    const NewEpoch epoch = member.told.front();
    member.told.pop_front();
    GroupState& state = member.state;
    state.epoch = epoch.epoch;
    state.root = epoch.root;
    state.settled_wishes = epoch.settled_wishes;
    is_over_.insert(settled_.begin(), settled_.end());
    const auto at = static_cast<std::size_t>(std::ranges::find(order_, id) - order_.begin());
    if (state.wish && state.wish_number <= epoch.settled_wishes[at]) state.wish.reset();
    member.said.push_back(state);
  }
  void decide_now() {
    if (told_.size() < order_.size()) return;
    GroupStates states = told_;
    Circumstances now;
    MemberId root{};
    std::uint64_t latest = 0;
    for (auto& [member, state] : states) {
      if (const auto arrival = wishes_.arrival(member, kGroup))
        now.arrivals[member] = *arrival;
      else
        state.wish.reset();
      if (state.epoch > latest) latest = state.epoch, root = state.root;
    }
    const auto decision = decide(order_, states, begun_, now);
    const auto* const epoch = decision ? std::get_if<NewEpoch>(&*decision) : nullptr;
    if (epoch == nullptr) return;
    if (epoch->root != root) {
      RC_ASSERT(!arrived_.empty());
      RC_ASSERT(epoch->root == arrived_.back().root);
    }
    if (!arrived_.empty() && epoch->root == arrived_.back().root) {
      for (const Wish& wish : arrived_) settled_.insert(wish.number);
      arrived_.clear();
    }
    NewEpoch begun = *epoch;
    begun.epoch = ++last_epoch_;
    begun_ = Begun{.epoch = begun, .lives = {}};
    for (const MemberId member : order_) {
      begun_->lives[member] = 0;
      members_[member].told.push_back(begun);
    }
  }

  std::vector<MemberId> order_;
  std::map<MemberId, Member> members_;
  std::uint64_t last_number_ = 0, last_epoch_ = 1;
  std::set<std::uint64_t> is_over_;  ///< the settled requests of which a member has learned
  // The state of the present coordinator follows.
  Wishes wishes_;
  GroupStates told_;
  std::vector<Wish> arrived_;  ///< the requests that are not settled, in the order of their arrival
  /// The requests that were settled by epochs of which perhaps no member has learned yet.
  std::set<std::uint64_t> settled_;
  std::optional<Begun> begun_;
};

State state_with_wish(std::uint64_t number) {
  return {.view = {}, .groups = {{.group = kGroup, .wish = MemberId{9}, .wish_number = number}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(whatever_the_order_the_newest_wish_is_granted_and_no_older_one_after_it) {
  BOOST_TEST(rc::check([] {
    Model model;
    for (int steps = 0; steps < 120; ++steps) model.step();
  }));
}

BOOST_AUTO_TEST_CASE(a_wish_does_not_come_back_when_a_newer_one_is_gone_with_its_maker) {
  Wishes wishes;
  wishes.note(MemberId{1}, state_with_wish(5));
  wishes.note(MemberId{2}, state_with_wish(1));
  wishes.note(MemberId{3}, state_with_wish(8));
  wishes.forget(MemberId{2});
  BOOST_TEST(!wishes.arrival(MemberId{1}, kGroup).has_value());
  BOOST_TEST(wishes.arrival(MemberId{3}, kGroup).has_value());
  wishes.note(MemberId{1}, state_with_wish(5));  // this repeats the report of the same request
  BOOST_TEST(!wishes.arrival(MemberId{1}, kGroup).has_value());
  wishes.note(MemberId{1}, state_with_wish(6));
  BOOST_TEST((wishes.arrival(MemberId{1}, kGroup) > wishes.arrival(MemberId{3}, kGroup)));
}

BOOST_AUTO_TEST_SUITE_END()
