// Tests small messages inside frames, which have a common order with large messages. Also tests the stability
// of messages and the closing barrier.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/world.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(small_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

constexpr Time kLimit{60'000'000'000};
const PeersConfig kPeers{.link = {.ring_bytes = 64 * 1024}, .keepalive = milliseconds(150), .early = {}};

std::vector<std::uint32_t> first(std::size_t count) {
  std::vector<std::uint32_t> members(count);
  std::iota(members.begin(), members.end(), 0u);
  return members;
}

}  // namespace

BOOST_DATA_TEST_CASE(small_and_large_messages_arrive_in_one_order_whatever_the_network_does,
                     bdata::xrange(1, all_or(9, 3)), seed) {
  Random random(static_cast<std::uint64_t>(seed));
  const auto count = static_cast<std::size_t>(random.between(2, 13));
  World world(static_cast<std::uint64_t>(seed), count, kPeers);
  if (seed % 2 == 0)
    world.network.set_faults({.loss = 10'000, .duplicate = 10'000, .reorder = 20'000, .corrupt = 5'000});
  SharedGroup group(world, {.number = 1}, first(count), {.confirms = true, .small_bytes = 4000});
  group.make_all();
  // Messages are sent in bursts. In some bursts, a member gives its memory late.
  for (int burst = 0; burst < 30; ++burst) {
    GroupEnd& late = *group.ends[1 + random.below(count - 1)];
    if (random.below(2) == 0) late.accept_at_once = false;
    for (int i = 0; i < 10; ++i) {
      if (random.below(4) == 0)
        group.send(random.below(100'000));
      else
        group.send(random.below(random.below(3) == 0 ? 4001 : 100));
    }
    world.run_for(microseconds(static_cast<std::int64_t>(random.below(500))));
    late.accept_waiting();
    world.wake_all();
  }
  BOOST_TEST(world.simulation.run_until([&] { return group.is_complete(); }, kLimit));
  BOOST_TEST(group.failures() == 0);
  BOOST_TEST(group.everybody_has_everything());
  const auto stable = [&] {
    return std::ranges::all_of(group.ends, [](const auto& e) { return e->stable_count == 300; });
  };
  BOOST_TEST(world.simulation.run_until(stable, kLimit));
  group.close_all();
  BOOST_TEST(world.simulation.run_until([&] { return group.is_closed(); }, kLimit));
}

BOOST_DATA_TEST_CASE(thousands_of_small_messages_pass_a_window_and_rings_that_are_full_all_the_time,
                     bdata::make({2, 9, 20}), count) {
  World world(5, static_cast<std::size_t>(count), {.link = {.ring_bytes = 8192}, .early = {}});
  SharedGroup group(world, {.number = 1}, first(static_cast<std::size_t>(count)),
                    {.confirms = true, .small_bytes = 2000, .small_window = 16 * 1024});
  group.make_all();
  for (int i = 0; i < all_or(1000, 300); ++i) group.send(static_cast<std::uint64_t>(i % 150));
  BOOST_TEST(world.simulation.run_until([&] { return group.is_complete(); }, kLimit));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(many_small_messages_share_a_datagram) {
  World world(6, 4, kPeers);
  SharedGroup group(world, {.number = 1}, first(4), {.confirms = true});
  group.make_all();
  const auto before = world.datagrams();
  for (int i = 0; i < 1000; ++i) group.send(64);
  BOOST_TEST(world.simulation.run_until([&] { return group.is_complete(); }, kLimit));
  // 1000 messages were sent to 3 receivers.
  BOOST_TEST(world.datagrams() - before < 1000u);
}

// While the receiver does not answer, small messages must leave together, and not in a separate frame for
// each turn.
BOOST_AUTO_TEST_CASE(a_stream_of_small_messages_fills_frames) {
  World world(6, 2, kPeers);
  SharedGroup group(world, {.number = 1}, first(2), {.confirms = true});
  group.make_all();
  const auto before = world.processes[0]->datagrams_sent();
  world.simulation.pause(world.processes[1]->process());
  for (int i = 0; i < 200; ++i) {
    group.send(20);
    world.run_for(microseconds(5));
  }
  BOOST_TEST(world.processes[0]->datagrams_sent() - before == 2u);
  world.simulation.resume(world.processes[1]->process());
  BOOST_TEST(world.simulation.run_until([&] { return group.is_complete(); }, kLimit));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_DATA_TEST_CASE(small_messages_without_memory_wait_and_the_window_holds_the_root_back,
                     bdata::make({4, 12}), count) {
  World world(7, static_cast<std::size_t>(count), kPeers);
  SharedGroup group(world, {.number = 1}, first(static_cast<std::size_t>(count)),
                    {.confirms = true, .small_window = 20'000});
  group.make_all();
  GroupEnd& slow = *group.ends[3];
  slow.accept_at_once = false;
  for (int i = 0; i < all_or(1000, 500); ++i) group.send(50);
  world.run_for(seconds(2));
  BOOST_TEST(group.failures() == 0);
  BOOST_TEST(slow.delivered_messages.empty());
  BOOST_TEST(group.ends[1]->delivered_messages.size() < 20'000 / 100);
  BOOST_TEST(group.ends[1]->stable_count == 0u);
  slow.accept_at_once = true;
  world.wake_all();
  BOOST_TEST(world.simulation.run_until([&] { return group.is_complete(); }, kLimit));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(a_member_that_is_alone_waits_for_nobody) {
  World world(7, 1, kPeers);
  SharedGroup group(world, {.number = 1}, first(1), {.confirms = true, .small_window = 16 * 1024});
  group.make_all();
  for (std::uint64_t i = 0; i < 2 * SmallWindow::kMostAhead; ++i) group.send(i % 1000 == 0 ? 60'000 : 50);
  BOOST_TEST(world.simulation.run_until([&] { return group.is_complete(); }, kLimit));
  group.close_all();
  BOOST_TEST(world.simulation.run_until([&] { return group.is_closed(); }, kLimit));
}

BOOST_DATA_TEST_CASE(a_member_that_never_has_memory_ends_the_group_by_name_after_its_own_time,
                     bdata::make({50, 50'000}), bytes) {
  World world(8, 3, kPeers);
  SharedGroup group(world, {.number = 1}, first(3), {.confirms = true, .memory_patience = seconds(3)});
  group.make_all();
  group.ends[2]->accept_at_once = false;
  group.send(static_cast<std::uint64_t>(bytes));
  world.run_for(milliseconds(2900));
  BOOST_TEST(group.failures() == 0);
  world.run_for(milliseconds(200));
  for (const auto& end : group.ends) {
    BOOST_TEST(end->failures == 1);
    BOOST_TEST((end->failed_peer == Rank{2}));
    BOOST_TEST(static_cast<int>(end->failure.code) == static_cast<int>(Errc::timed_out));
    BOOST_TEST(end->releases == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_is_always_late_but_never_too_late_ends_nothing) {
  World world(8, 3, kPeers);
  SharedGroup group(world, {.number = 1}, first(3), {.confirms = true, .memory_patience = seconds(3)});
  group.make_all();
  GroupEnd& late = *group.ends[2];
  late.accept_at_once = false;
  for (int i = 0; i < 6; ++i) group.send(50'000);
  for (std::uint64_t i = 0; i < 6; ++i) {
    world.run_for(seconds(2));
    BOOST_REQUIRE(late.announced.contains(i));
    BOOST_REQUIRE(late.group().accept(i, late.store_for(i, 50'000)));
    world.wake_all();
  }
  world.run_for(seconds(1));
  BOOST_TEST(group.failures() == 0);
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_DATA_TEST_CASE(
    a_member_without_memory_holds_up_the_group_for_as_long_as_it_likes_and_is_named_to_the_root,
    bdata::make({3, 11}) * bdata::make({50, 50'000}), count, bytes) {
  World world(8, static_cast<std::size_t>(count), kPeers);
  SharedGroup group(world, {.number = 1}, first(static_cast<std::size_t>(count)), {.confirms = true});
  group.make_all();
  group.ends[2]->accept_at_once = false;
  for (int i = 0; i < 3; ++i) group.send(static_cast<std::uint64_t>(bytes));
  world.run_for(milliseconds(900));
  const auto& told = group.ends[0]->held_up_by;
  BOOST_TEST(told.empty());
  world.run_for(seconds(all_or(600, 30)));
  BOOST_TEST(group.failures() == 0);
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST((told[0] == Holder{.member = Rank{2}, .message = 0}));
  group.ends[2]->accept_waiting();
  world.wake_all();
  BOOST_TEST(
      world.simulation.run_until([&] { return group.is_complete(); }, world.simulation.now() + seconds(10)));
  BOOST_TEST(group.everybody_has_everything());
  world.run_for(seconds(1));  // In this time, the report goes up the tree.
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(!told[1].has_value());
  for (std::size_t i = 1; i < group.ends.size(); ++i) BOOST_TEST(group.ends[i]->held_up_by.empty());
}

BOOST_DATA_TEST_CASE(
    a_member_that_makes_the_group_late_holds_it_up_for_as_long_as_it_likes_and_is_named_to_the_root,
    bdata::make({2, 3, 11}) * bdata::make({50, 50'000}), count, bytes) {
  World world(18, static_cast<std::size_t>(count), kPeers);
  SharedGroup group(world, {.number = 1}, first(static_cast<std::size_t>(count)), {.confirms = true});
  // In a group of 11, only member 2 can be the first member that sends a block to member 10.
  const auto late = static_cast<std::size_t>(count) - 1;
  for (std::size_t rank = 0; rank < late; ++rank) BOOST_REQUIRE(group.make(rank));
  for (int i = 0; i < 3; ++i) group.send(static_cast<std::uint64_t>(bytes));
  world.run_for(milliseconds(900));
  const auto& told = group.ends[0]->held_up_by;
  BOOST_TEST(told.empty());
  world.run_for(seconds(all_or(600, 30)));
  BOOST_TEST(group.failures() == 0);
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST((told[0] == Holder{.member = Rank{static_cast<std::uint32_t>(late)}, .message = 0}));
  BOOST_REQUIRE(group.make(late));
  world.wake_all();
  BOOST_TEST(
      world.simulation.run_until([&] { return group.is_complete(); }, world.simulation.now() + seconds(10)));
  BOOST_TEST(group.everybody_has_everything());
  world.run_for(seconds(1));
  BOOST_REQUIRE(told.size() == 2u);
  BOOST_TEST(!told[1].has_value());
}

BOOST_DATA_TEST_CASE(all_small_messages_that_a_root_may_send_are_kept_for_a_member_that_makes_the_group_late,
                     bdata::make({1, 4096}), bytes) {
  World world(19, 2, kPeers);
  SharedGroup group(world, {.number = 1}, first(2), {.confirms = true});
  BOOST_REQUIRE(group.make(0));
  // The window does not admit all of these messages. The others wait at the root.
  for (int i = 0; i < (bytes == 1 ? 20'000 : 1'000); ++i) group.send(static_cast<std::uint64_t>(bytes));
  world.run_for(seconds(all_or(60, 5)));
  BOOST_TEST(group.failures() == 0);
  BOOST_REQUIRE(group.make(1));
  world.wake_all();
  BOOST_TEST(
      world.simulation.run_until([&] { return group.is_complete(); }, world.simulation.now() + seconds(60)));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_DATA_TEST_CASE(nothing_is_closed_before_every_member_wishes_it_and_has_everything, bdata::make({3, 11}),
                     count) {
  World world(9, static_cast<std::size_t>(count), kPeers);
  SharedGroup group(world, {.number = 1}, first(static_cast<std::size_t>(count)), {.confirms = true});
  group.make_all();
  for (int i = 0; i < 20; ++i) group.send(i % 2 == 0 ? 60'000 : 10);
  for (std::size_t rank = 0; rank + 1 < group.ends.size(); ++rank)
    BOOST_REQUIRE(group.ends[rank]->group().close());
  BOOST_TEST(!group.ends[0]->group().close());
  BOOST_TEST(!group.ends[0]->group().send_small({}));
  world.wake_all();
  world.run_for(seconds(2));
  BOOST_TEST(group.is_complete());
  for (const auto& end : group.ends) BOOST_TEST(end->releases == 0);
  BOOST_REQUIRE(group.ends.back()->group().close());
  world.wake_all();
  BOOST_TEST(world.simulation.run_until([&] { return group.is_closed(); }, kLimit));
  BOOST_TEST(group.everybody_has_everything());
  BOOST_TEST(group.failures() == 0);
  // The connections still exist, so the next group needs no new ones.
  for (auto& end : group.ends) end->destroy();
  SharedGroup next(world, {.number = 1, .epoch = 1}, first(static_cast<std::size_t>(count)),
                   {.confirms = true});
  next.make_all();
  next.send(70'000);
  BOOST_TEST(world.simulation.run_until([&] { return next.is_complete(); }, kLimit));
}

BOOST_AUTO_TEST_CASE(a_member_that_dies_before_the_closing_barrier_lets_it_fail_everywhere) {
  World world(10, 4, kPeers);
  SharedGroup group(world, {.number = 1}, first(4), {.confirms = true});
  group.make_all();
  group.send(50'000);
  group.close_all();
  world.simulation.kill(world.processes[2]->process());
  const Time killed = world.simulation.now();
  const auto known = [&] { return group.failures() == 3; };
  BOOST_TEST(world.simulation.run_until(known, killed + seconds(1)));
  for (const std::size_t rank : {0, 1, 3}) BOOST_TEST(!group.ends[rank]->group().is_closed());
}

BOOST_AUTO_TEST_SUITE_END()
