// Tests many groups over the same connections. A group is made without sending a packet. The groups are used
// at the same time, and are ended one by one.
#include "lib/group/peers.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/world.hpp"

BOOST_AUTO_TEST_SUITE(peers_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

constexpr Time kLimit{60'000'000'000};

}  // namespace

BOOST_AUTO_TEST_CASE(making_a_group_among_connected_peers_sends_no_datagram) {
  World world(1, 6);
  SharedGroup first(world, {.number = 1}, {0, 1, 2, 3, 4, 5});
  first.make_all();
  first.send(100'000);
  BOOST_REQUIRE(world.simulation.run_until([&] { return first.is_complete(); }, kLimit));
  world.run_for(seconds(1));  // In this time, the last acknowledgements leave.
  const auto before = world.datagrams();
  SharedGroup second(world, {.number = 2}, {3, 1, 5, 0});
  second.make_all();
  world.wake_all();
  world.run_for(seconds(5));
  BOOST_TEST(world.datagrams() == before);
  second.send(100'000);
  BOOST_TEST(world.simulation.run_until([&] { return second.is_complete(); }, kLimit));
  BOOST_TEST(second.everybody_has_everything());
}

BOOST_DATA_TEST_CASE(many_overlapping_groups_with_roots_of_their_own_run_at_once_whenever_each_is_made,
                     bdata::xrange(1, 9), seed) {
  constexpr std::size_t kProcesses = 6;
  World world(static_cast<std::uint64_t>(seed), kProcesses);
  world.network.set_faults({.loss = seed % 2 == 0 ? 10'000u : 0u, .reorder = 10'000});
  Random& random = world.simulation.random();
  std::vector<std::unique_ptr<SharedGroup>> groups;
  for (std::uint64_t number = 0; number < 12; ++number) {
    std::vector<std::uint32_t> members{0, 1, 2, 3, 4, 5};
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[random.below(i)]);
    members.resize(random.between(2, kProcesses));
    groups.push_back(std::make_unique<SharedGroup>(world, GroupName{.number = number}, members));
  }
  // Each member makes each group at a random time. The root sends at once.
  for (auto& group : groups) {
    for (std::size_t rank = 0; rank < group->members.size(); ++rank) {
      const Time when{static_cast<std::int64_t>(random.below(20'000'000))};
      world.simulation.at(when, [&group = *group, rank, &random] {
        BOOST_REQUIRE(group.make(rank));
        for (int i = 0; rank == 0 && i < 5; ++i) group.send(random.below(120'000));
        group.world.processes[group.members[rank]]->wake();
      });
    }
  }
  const auto all_done = [&] {
    return std::ranges::all_of(groups, [](const auto& g) { return g->sent == 5 && g->is_complete(); });
  };
  BOOST_TEST(world.simulation.run_until(all_done, kLimit));
  for (auto& group : groups) {
    BOOST_TEST(group->failures() == 0);
    BOOST_TEST(group->everybody_has_everything());
  }
}

BOOST_DATA_TEST_CASE(ending_a_group_in_mid_message_frees_its_memory_everywhere_and_leaves_the_others_running,
                     bdata::xrange(0, 4), who) {
  World world(3, 4);
  SharedGroup ending(world, {.number = 1}, {0, 1, 2, 3}), other(world, {.number = 2}, {1, 0, 3, 2});
  ending.make_all();
  other.make_all();
  for (int i = 0; i < 3; ++i) {
    ending.send(2 << 20);
    other.send(1 << 20);
  }
  world.run_for(milliseconds(1));
  GroupEnd& end = *ending.ends[static_cast<std::size_t>(who)];
  end.group().end({Errc::cancelled, "enough"});
  world.wake_all();
  const auto released = [&] {
    return std::ranges::all_of(ending.ends, [](const auto& e) { return e->releases == 1; });
  };
  BOOST_TEST(world.simulation.run_until(released, world.simulation.now() + seconds(1)));
  std::vector<std::vector<std::byte>> before;
  for (auto& e : ending.ends) {
    before.emplace_back(e->bytes(0).begin(), e->bytes(0).end());
    BOOST_TEST(e->failures == (e.get() == &end ? 0 : 1));
    if (e.get() != &end) {
      BOOST_TEST((e->failure.what == "enough"));
      // Every member names a failed member. A member that is not connected with the ended member names the
      // member that was reported to it as failed.
      BOOST_TEST(e->failed_peer.has_value());
    }
    e->destroy();
  }
  BOOST_TEST(world.simulation.run_until([&] { return other.is_complete(); }, kLimit));
  BOOST_TEST(other.failures() == 0);
  BOOST_TEST(other.everybody_has_everything());
  for (std::size_t i = 0; i < ending.ends.size(); ++i)
    BOOST_TEST(std::ranges::equal(before[i], ending.ends[i]->bytes(0)));
}

BOOST_AUTO_TEST_CASE(a_group_that_a_member_never_makes_fails_by_name_after_a_deadline_and_harms_no_other) {
  World world(4, 3, {.early = {.patience = seconds(2)}});
  SharedGroup lonely(world, {.number = 1}, {0, 1, 2}), other(world, {.number = 2}, {0, 1, 2});
  BOOST_REQUIRE(lonely.make(0));
  other.make_all();
  lonely.send(50'000);
  world.run_for(seconds(1));
  BOOST_TEST(lonely.failures() == 0);
  BOOST_TEST(world.simulation.run_until([&] { return lonely.ends[0]->failures == 1; }, Time{} + seconds(3)));
  BOOST_TEST(static_cast<int>(lonely.ends[0]->failure.code) == static_cast<int>(Errc::timed_out));
  const auto late = lonely.make(1);
  BOOST_REQUIRE(!late);
  BOOST_TEST(static_cast<int>(late.error().code) == static_cast<int>(Errc::already_exists));
  other.send(50'000);
  BOOST_TEST(world.simulation.run_until([&] { return other.is_complete(); }, kLimit));
  BOOST_TEST(world.simulation.run_until([&] { return lonely.ends[0]->releases == 1; }, kLimit));
}

BOOST_AUTO_TEST_CASE(a_name_in_use_and_a_name_that_was_used_are_refused) {
  World world(5, 2);
  SharedGroup group(world, {.number = 1, .epoch = 4}, {0, 1});
  group.make_all();
  const auto refused = [](const Result<void>& made) {
    return !made && made.error().code == Errc::already_exists;
  };
  SharedGroup same(world, {.number = 1, .epoch = 4}, {0, 1});
  BOOST_TEST(refused(same.make(0)));
  for (auto& end : group.ends) end->destroy();
  BOOST_TEST(refused(same.make(0)));
  SharedGroup next(world, {.number = 1, .epoch = 5}, {1, 0});
  next.make_all();
  next.send(70'000);
  BOOST_TEST(world.simulation.run_until([&] { return next.is_complete(); }, kLimit));
  BOOST_TEST(next.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(bad_member_lists_are_refused_by_name) {
  World world(6, 2);
  const auto refused = [&](std::vector<std::uint32_t> members, std::uint32_t rank) {
    GroupConfig config{.name = {.number = 9}, .rank = Rank{rank}, .members = {}};
    for (const std::uint32_t member : members) config.members.push_back(PeerId{member});
    GroupEnd end;
    const auto made = end.open(world.processes[0]->peers(), config);
    return !made && made.error().code == Errc::invalid_argument && !made.error().what.empty();
  };
  BOOST_TEST(refused({}, 0));
  BOOST_TEST(refused({0, 1, 0}, 0));
  BOOST_TEST(refused({0, 1}, 2));
}

BOOST_AUTO_TEST_CASE(a_dead_peer_fails_the_groups_it_is_in_and_no_other) {
  World world(7, 4, {.keepalive = milliseconds(150)});
  SharedGroup with(world, {.number = 1}, {0, 1, 2, 3}), without(world, {.number = 2}, {0, 1, 2});
  with.make_all();
  without.make_all();
  with.send(4 << 20);
  world.run_for(microseconds(300));
  world.simulation.kill(world.processes[3]->process());
  const Time killed = world.simulation.now();
  const auto known = [&] {
    return std::ranges::count_if(with.ends, [](const auto& e) { return e->failed_peer == Rank{3}; }) == 3;
  };
  BOOST_TEST(world.simulation.run_until(known, killed + seconds(1)));
  without.send(500'000);
  BOOST_TEST(world.simulation.run_until([&] { return without.is_complete(); }, kLimit));
  BOOST_TEST(without.failures() == 0);
  BOOST_TEST(without.everybody_has_everything());
}

BOOST_AUTO_TEST_SUITE_END()
