// Tests the decisions of a coordinator about a group, and the messages between members and coordinators.
#include "lib/membership/coordination.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(coordination_test)

using namespace rdmc;
using namespace rdmc::member_groups;

namespace {

using Members = std::vector<MemberId>;

Members members(std::initializer_list<std::uint64_t> ids) {
  Members all;
  for (const std::uint64_t id : ids) all.push_back(MemberId{id});
  return all;
}

/// Returns the states of all members. Every state is a copy of `state`, in the group 7, and connected with
/// all other members.
GroupStates all(const Members& order, const GroupState& state) {
  GroupStates states;
  for (const MemberId member : order) {
    states[member] = state;
    states[member].group = GroupNumber{7};
    for (const MemberId other : order)
      if (other != member) states[member].connected.push_back(other);
  }
  return states;
}

GroupState in_epoch(std::uint64_t epoch, MemberId root, const Members& participants,
                    Stage stage = Stage::open) {
  return {.stage = stage, .epoch = epoch, .root = root, .participants = participants};
}

const NewEpoch* epoch_of(const std::optional<Decision>& decision) {
  return decision ? std::get_if<NewEpoch>(&*decision) : nullptr;
}

bool is_unconnected(const std::optional<Decision>& decision) {
  return decision && std::holds_alternative<Unconnected>(*decision);
}

/// Ends the connection between two members.
void disconnect(GroupStates& states, std::uint64_t one, std::uint64_t other) {
  std::erase(states[MemberId{one}].connected, MemberId{other});
  std::erase(states[MemberId{other}].connected, MemberId{one});
}

void expect(const std::optional<Decision>& decision, const Members& participants, std::uint64_t root) {
  const NewEpoch* const epoch = epoch_of(decision);
  BOOST_TEST_REQUIRE(epoch != nullptr);
  BOOST_TEST((epoch->participants == participants));
  BOOST_TEST((epoch->root == MemberId{root}));
  BOOST_TEST((epoch->group == GroupNumber{7}));
}

std::vector<std::byte> any_bytes() {
  std::vector<std::byte> bytes(*rc::gen::inRange<std::size_t>(0, 60));
  for (std::byte& byte : bytes) byte = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_begins_when_enough_members_have_made_it_and_are_connected) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, {.first_members = 3});
  expect(decide(order, states, {}), order, 5);
  GroupStates two = states;
  two.erase(MemberId{3});
  BOOST_TEST(!decide(order, two, {}).has_value());
  states[MemberId{9}].connected = members({5});
  BOOST_TEST(!decide(order, states, {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_group_that_is_open_stays_as_it_is) {
  const Members order = members({5, 3, 9});
  BOOST_TEST(!decide(order, all(order, in_epoch(4, MemberId{3}, order)), {}).has_value());
}

BOOST_AUTO_TEST_CASE(the_root_stays_while_it_lives_and_then_the_oldest_follows) {
  const Members before = members({5, 3, 9, 7}), order = members({5, 3, 9});
  expect(decide(order, all(order, in_epoch(4, MemberId{9}, before, Stage::failed)), {}), order, 9);
  expect(decide(order, all(order, in_epoch(4, MemberId{7}, before, Stage::failed)), {}), order, 5);
}

BOOST_AUTO_TEST_CASE(who_joins_comes_last_in_age_and_does_not_become_the_root) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, in_epoch(4, MemberId{3}, members({3, 9})));
  states[MemberId{5}].epoch = 0;
  states[MemberId{5}].stage = Stage::waiting;
  expect(decide(order, states, {}), order, 3);
  states[MemberId{5}].connected = members({3});
  BOOST_TEST(!decide(order, states, {}).has_value());
}

BOOST_AUTO_TEST_CASE(nobody_is_asked_again_while_an_epoch_is_on_its_way_but_another_life_is) {
  const Members order = members({5, 3});
  const GroupStates states = all(order, {.life = 1});
  Begun begun{.epoch = {.group = GroupNumber{7}, .epoch = 9, .root = MemberId{5}, .participants = order},
              .lives = {{MemberId{5}, 1}, {MemberId{3}, 1}}};
  BOOST_TEST(!decide(order, states, begun).has_value());
  begun.lives[MemberId{3}] = 8;
  expect(decide(order, states, begun), order, 5);
}

BOOST_AUTO_TEST_CASE(members_that_have_heard_of_different_epochs_go_on_together) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, in_epoch(4, MemberId{5}, order, Stage::failed));
  states[MemberId{9}] = in_epoch(6, MemberId{9}, order, Stage::going);
  states[MemberId{9}].group = GroupNumber{7};
  BOOST_TEST(left_out(states, {}).empty());
  // Member 9 is connected with no member.
  BOOST_TEST(is_unconnected(decide(order, states, {})));
  states[MemberId{9}].connected = members({5, 3});
  expect(decide(order, states, {}), order, 9);
}

BOOST_AUTO_TEST_CASE(a_root_that_lives_is_drained_before_another_member_is_the_root) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, in_epoch(4, MemberId{5}, order));
  states[MemberId{9}].wish = MemberId{3};
  const auto decision = decide(order, states, {});
  BOOST_TEST_REQUIRE(decision.has_value());
  BOOST_TEST((std::get<Drain>(*decision) == Drain{.group = GroupNumber{7}, .epoch = 4}));
  states[MemberId{5}].is_drained = true;
  expect(decide(order, states, {}), order, 3);
  // The request is withdrawn after the root was drained. So a new epoch must permit the root to send again.
  states[MemberId{9}].wish.reset();
  expect(decide(order, states, {}), order, 5);
  // If the root fails before it is drained, it stays the root. If the root leaves the view, the request is
  // granted without draining.
  states[MemberId{9}].wish = MemberId{3};
  states[MemberId{5}].is_drained = false;
  states[MemberId{5}].stage = Stage::failed;
  expect(decide(order, states, {}), order, 5);
  states.erase(MemberId{5});
  for (auto& [member, state] : states) state.stage = Stage::failed;
  expect(decide(members({3, 9}), states, {}), members({3, 9}), 3);
}

BOOST_AUTO_TEST_CASE(of_several_wishes_the_last_that_arrives_stands_and_none_comes_back_later) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, in_epoch(4, MemberId{5}, order));
  states[MemberId{5}].is_drained = true;
  states[MemberId{3}].wish = MemberId{3}, states[MemberId{3}].wish_number = 40;
  states[MemberId{9}].wish = MemberId{9}, states[MemberId{9}].wish_number = 2;
  Circumstances now{.arrivals = {{MemberId{3}, 8}, {MemberId{9}, 7}}};
  expect(decide(order, states, {}, now), order, 3);
  now.arrivals[MemberId{9}] = 9;
  const auto decision = decide(order, states, {}, now);
  expect(decision, order, 9);
  BOOST_TEST((epoch_of(decision)->settled_wishes == std::vector<std::uint64_t>{0, 40, 2}));
  // The last request names the present root. So the root continues, and the requests of the others are
  // settled.
  states[MemberId{9}].wish = MemberId{5};
  BOOST_TEST(
      (epoch_of(decide(order, states, {}, now))->settled_wishes == std::vector<std::uint64_t>{0, 40, 2}));
  expect(decide(order, states, {}, now), order, 5);
  states[MemberId{5}].is_drained = false;
  BOOST_TEST(!decide(order, states, {}, now).has_value());
  // Now an epoch begins for another reason: the last epoch has failed at member 3. The new epoch does not
  // have the root that the last request names. So it settles no request, and a later epoch can still grant
  // the last request.
  states[MemberId{9}].wish = MemberId{9};
  states[MemberId{3}].stage = Stage::failed;
  const auto other = decide(order, states, {}, now);
  expect(other, order, 5);
  BOOST_TEST((epoch_of(other)->settled_wishes == std::vector<std::uint64_t>{0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_group_goes_on_without_who_is_silent_if_those_that_are_heard_are_most_of_it) {
  const Members order = members({5, 3, 9, 7});
  // The silent member does not take part in the group, so the group stays as it is.
  GroupStates states = all(members({5, 3, 9}), in_epoch(4, MemberId{5}, members({5, 3, 9})));
  BOOST_TEST(!decide(order, states, {}, {.silent = members({7})}).has_value());
  // Of two members, only the oldest one may continue alone. A former coordinator may have removed the other
  // one from the group.
  for (const std::uint64_t silent : {9, 5}) {
    GroupStates heard = all(members({5, 9}), in_epoch(4, MemberId{9}, members({5, 9}), Stage::failed));
    heard.erase(MemberId{silent});
    const auto decision = decide(order, heard, {}, {.silent = members({silent})});
    if (silent == 9)
      expect(decision, members({5}), 5);
    else
      BOOST_TEST(!decision.has_value());
  }
  states.erase(MemberId{3});
  expect(decide(order, states, {}, {.silent = members({3})}), members({5, 9}), 5);
  states.erase(MemberId{5});
  BOOST_TEST(!decide(order, states, {}, {.silent = members({5, 3})}).has_value());
  // Dead members count, too. The silent member may have continued together with them and without the others.
  const Members five = members({5, 8, 3, 9, 7});
  states = all(members({3, 9}), in_epoch(4, MemberId{5}, five, Stage::failed));
  BOOST_TEST(!decide(members({3, 9, 7}), states, {}, {.silent = members({7})}).has_value());
  expect(decide(members({3, 9, 7}), all(members({3, 9, 7}), states.at(MemberId{3})), {}), members({3, 9, 7}),
         3);
  // If no member that has reported was in the group before, more than half of the view must have reported, or
  // the group cannot begin.
  const GroupStates new_ones = all(members({5, 3, 9}), {});
  expect(decide(order, new_ones, {}, {.silent = members({7})}), members({5, 3, 9}), 5);
  BOOST_TEST(!decide(members({8, 6, 4, 5, 3, 9}), new_ones, {}, {.silent = members({8, 6, 4})}).has_value());
}

BOOST_AUTO_TEST_CASE(
    of_two_that_do_not_come_to_be_connected_the_younger_is_left_out_and_of_more_who_lacks_most) {
  const Members order = members({5, 3, 9, 7});
  GroupStates states = all(order, in_epoch(4, MemberId{9}, order, Stage::failed));
  disconnect(states, 3, 9);
  BOOST_TEST(is_unconnected(decide(order, states, {})));
  expect(decide(order, states, {}, {.is_time_over = true}), members({5, 3, 7}), 5);
  disconnect(states, 3, 7);
  expect(decide(order, states, {}, {.is_time_over = true}), members({5, 9, 7}), 9);
  // Fewer than half of the members must not continue, because the others could continue without them.
  for (const std::uint64_t other : {3, 9, 7}) disconnect(states, 5, other);
  disconnect(states, 9, 7);
  BOOST_TEST(!decide(order, states, {}, {.is_time_over = true}).has_value());
  // While the group is open and no change is due, connections have no influence.
  for (auto& [member, state] : states) state.stage = Stage::open;
  BOOST_TEST(!decide(order, states, {}).has_value());
}

BOOST_AUTO_TEST_CASE(who_was_left_out_is_not_in_the_group_any_more_though_it_is_heard_again) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, in_epoch(4, MemberId{5}, order));
  BOOST_TEST(left_out(states, {}).empty());
  const Begun begun{.epoch = {.group = GroupNumber{7}, .epoch = 6, .participants = members({5, 3})},
                    .lives = {{MemberId{5}, 0}, {MemberId{3}, 0}}};
  BOOST_TEST((left_out(states, begun) == members({9})));
  for (const std::uint64_t member : {5, 3}) {
    states[MemberId{member}].epoch = 6;
    states[MemberId{member}].participants = members({5, 3});
  }
  BOOST_TEST((left_out(states, {}) == members({9})));
  // Member 9 has made the group again, and joins it.
  states[MemberId{9}].epoch = 0;
  BOOST_TEST(left_out(states, {}).empty());
}

BOOST_AUTO_TEST_CASE(the_options_of_those_who_are_in_the_group_count_and_before_the_oldest_s) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, {});
  BOOST_TEST(with_other_options(order, states, {}).empty());
  states[MemberId{5}].options = {.block_bytes = 1};
  BOOST_TEST((with_other_options(order, states, {}) == members({3, 9})));
  // Two members are entering their first epoch and have not reported since. They already count as members.
  const Begun begun{.epoch = {.group = GroupNumber{7}, .epoch = 1, .participants = members({3, 9})},
                    .lives = {{MemberId{3}, 0}, {MemberId{9}, 0}}};
  BOOST_TEST((with_other_options(order, states, begun) == members({5})));
  states[MemberId{9}].epoch = 2;
  BOOST_TEST((with_other_options(order, states, {}) == members({5})));
}

BOOST_AUTO_TEST_CASE(a_wish_for_another_root_is_granted_and_a_standing_one_goes_before) {
  const Members order = members({5, 3, 9});
  GroupStates states = all(order, in_epoch(4, MemberId{5}, order));
  states[MemberId{5}].is_drained = true;
  states[MemberId{9}].wish = MemberId{3};
  expect(decide(order, states, {}), order, 3);
  states[MemberId{9}].wish = MemberId{44};
  expect(decide(order, states, {}), order, 5);
  states[MemberId{3}].wish = MemberId{3};
  states[MemberId{5}].wish = MemberId{9};
  states[MemberId{5}].wish_stands = true;
  expect(decide(order, states, {}), order, 9);
  states[MemberId{3}].stage = Stage::going;
  BOOST_TEST(!decide(order, states, {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_group_is_closed_when_all_wish_it_and_takes_nobody_in_before) {
  const Members order = members({5, 3, 9}), first = members({5, 3});
  GroupStates states = all(order, in_epoch(4, MemberId{5}, first, Stage::closing));
  states[MemberId{9}].epoch = 0;
  states[MemberId{9}].stage = Stage::waiting;
  const auto decision = decide(order, states, {});
  BOOST_TEST_REQUIRE(decision.has_value());
  BOOST_TEST(std::get<AllClose>(*decision).epoch == 4U);
  states[MemberId{3}].stage = Stage::open;
  BOOST_TEST(!decide(order, states, {}).has_value());
}

BOOST_AUTO_TEST_CASE(messages_are_understood_as_they_were_meant_and_others_are_refused) {
  BOOST_TEST(rc::check([] {
    const auto number = [] { return *rc::gen::arbitrary<std::uint64_t>(); };
    const GroupNumber group{number()};
    const Members some = members({number(), number()});
    GroupState state{.group = group,
                     .life = number(),
                     .stage = Stage::closing,
                     .epoch = number(),
                     .root = MemberId{number()},
                     .participants = some,
                     .settled_wishes = {number(), number()},
                     .connected = members({number()}),
                     .first_members = number(),
                     .options = {.block_bytes = *rc::gen::arbitrary<std::uint32_t>(), .algorithm = 2},
                     .is_drained = *rc::gen::arbitrary<bool>()};
    if (*rc::gen::arbitrary<bool>()) state.wish = MemberId{number()};
    state.wish_stands = state.wish && *rc::gen::arbitrary<bool>();
    state.wish_number = number();
    const std::vector<Message> messages{
        State{.view = Epoch{number()}, .groups = {state, state}},
        NewEpoch{.group = group,
                 .epoch = number(),
                 .root = MemberId{number()},
                 .participants = some,
                 .settled_wishes = {number(), number()}},
        AllClose{.group = group, .epoch = number()},
        NodeWanted{group},
        Drain{.group = group, .epoch = number()},
        Refusal{.group = group, .life = number(), .is_left_out = *rc::gen::arbitrary<bool>()}};
    for (const Message& message : messages) {
      const Bytes bytes = encode(message);
      RC_ASSERT(decode(bytes).value() == message);
      static_cast<void>(decode(std::span(bytes).first(*rc::gen::inRange<std::size_t>(0, bytes.size()))));
    }
    const Greeting greeting{MemberId{number()}, MemberId{number()},
                            *rc::gen::element(Purpose::messages, Purpose::question, Purpose::node), group};
    const Bytes said = encode_greeting(greeting);
    RC_ASSERT(decode_greeting(said).value() == greeting);
    RC_ASSERT(!decode_greeting(std::span(said).first(*rc::gen::inRange<std::size_t>(0, said.size()))));
    static_cast<void>(decode(any_bytes()));
  }));
}

BOOST_AUTO_TEST_SUITE_END()
