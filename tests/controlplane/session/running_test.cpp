#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(running_test)
namespace {

constexpr Time kLimit{seconds(120).ns};

/// Checks that all members except `failed` were informed that epoch 1 has ended because `failed` was lost.
/// This must have happened at most `within` after `since`.
void expect_end_everywhere(const World& world, std::size_t failed, Time since, Duration within) {
  for (std::size_t i = 0; i < world.size(); ++i) {
    if (i == failed) continue;
    const Record* end = world.find(i, "EndData");
    BOOST_REQUIRE(end != nullptr);
    BOOST_TEST((end->failed == std::set<std::string>{World::name_of(failed)}));
    BOOST_TEST((end->at - since <= within));
  }
}

void expect_survivors(const World& world, std::size_t failed) {
  for (std::size_t i = 1; i < world.size(); ++i)
    BOOST_TEST((world.outcome(i)->status == (i == failed ? Status::failed : Status::ok)));
}

BOOST_AUTO_TEST_CASE(a_killed_member_ends_the_epoch_everywhere_within_milliseconds) {
  World world({.participants = 4});
  Time killed;
  world.on(
      2, "StartData", [&] { killed = world.now(), world.kill(2); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  expect_end_everywhere(world, 2, killed, milliseconds(10));
  expect_survivors(world, 2);
}

BOOST_AUTO_TEST_CASE(a_silent_member_ends_the_epoch_everywhere_within_700_ms) {
  World world({.participants = 4});
  Time frozen;
  world.on(
      3, "StartData", [&] { frozen = world.now(), world.freeze(3); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  expect_end_everywhere(world, 3, frozen, milliseconds(700));
  BOOST_TEST(world.outcome(3)->cause.what == "fell silent for 600 ms");
  expect_survivors(world, 3);
}

BOOST_AUTO_TEST_CASE(a_member_stopped_for_300_ms_is_not_removed) {
  World world({.participants = 4});
  world.on(
      3, "StartData", [&] { world.pause(3, milliseconds(300)); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  expect_survivors(world, 0);
  BOOST_TEST(world.coordinator().counters().epochs == 1u);
}

BOOST_AUTO_TEST_CASE(a_broken_data_link_costs_one_of_its_ends) {
  World world({.participants = 4});
  world.break_data_link(2, 3);
  BOOST_REQUIRE(world.run(kLimit));
  const bool second = world.outcome(2)->status == Status::failed;
  expect_survivors(world, second ? 2 : 3);
  BOOST_TEST(world.outcome(second ? 2 : 3)->cause.what ==
             (second ? "has a broken data link to h3: retries exceeded"
                     : "has a broken data link to h2: retries exceeded"));
  BOOST_TEST(world.count(second ? 2 : 3, "AbortRequested") == 1);
  BOOST_TEST(world.coordinator().counters().judgements == 1u);
}

BOOST_AUTO_TEST_CASE(the_member_that_more_observers_suspect_is_removed) {
  World world({.participants = 5});
  for (std::size_t other : {0, 1, 2, 3, 5}) world.break_data_link(4, other);
  BOOST_REQUIRE(world.run(kLimit));
  expect_survivors(world, 4);
  BOOST_TEST(world.coordinator().counters().epochs == 2u);
}

BOOST_AUTO_TEST_CASE(the_root_is_never_removed) {
  World world({.participants = 3});
  world.break_data_link(0, 2);
  BOOST_REQUIRE(world.run(kLimit));
  expect_survivors(world, 2);
  BOOST_TEST(world.outcome(2)->cause.what == "has a broken data link to root: retries exceeded");
}

BOOST_AUTO_TEST_CASE(several_broken_links_are_judged_in_one_view_change) {
  World world({.participants = 6});
  world.break_data_link(1, 2);
  world.break_data_link(3, 4);
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.coordinator().counters().epochs == 2u);
  BOOST_TEST(((world.outcome(1)->status == Status::ok) != (world.outcome(2)->status == Status::ok)));
  BOOST_TEST(((world.outcome(3)->status == Status::ok) != (world.outcome(4)->status == Status::ok)));
  BOOST_TEST((world.outcome(5)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_suspect_that_answers_no_probe_goes_and_its_observer_stays) {
  Options options{.participants = 3, .data_patience = milliseconds(200)};
  World world(options);
  Time frozen;
  world.on(
      2, "StartData", [&] { frozen = world.now(), world.freeze(2); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  expect_end_everywhere(world, 2, frozen, milliseconds(600));
  BOOST_TEST(world.outcome(2)->cause.what == "is suspected and did not answer a probe");
  expect_survivors(world, 2);
}

BOOST_AUTO_TEST_CASE(an_epoch_without_progress_loses_who_is_furthest_behind) {
  World world({.participants = 3});
  world.behaviour(2).never_progresses = true;
  BOOST_REQUIRE(world.run(kLimit));
  expect_survivors(world, 2);
  BOOST_TEST(world.outcome(2)->cause.what == "got no further for 30 s");
}

BOOST_AUTO_TEST_CASE(progress_is_told_at_most_four_times_a_second) {
  World world({.participants = 1, .data_time = seconds(20)});
  BOOST_REQUIRE(world.run(kLimit));
  const Duration running = world.find(1, "EndData")->at - world.find(1, "StartData")->at;
  const int told = world.count(0, "Progressed");
  BOOST_TEST(told <= static_cast<int>(running.seconds() * 4) + 1);
  BOOST_TEST(told >= static_cast<int>(running.seconds() * 3));
}

BOOST_AUTO_TEST_CASE(a_member_that_reports_its_full_disk_fails_with_that_cause) {
  World world({.participants = 3});
  world.behaviour(1).fails_at = "StartData";
  BOOST_REQUIRE(world.run(kLimit));
  expect_survivors(world, 1);
  BOOST_TEST(world.outcome(1)->cause.what == "disk full");
}

BOOST_AUTO_TEST_CASE(who_is_whole_before_the_last_block_was_sent_breaks_the_protocol) {
  World world({.participants = 3});
  world.forget_expected();
  wire::Envelope delivered;
  delivered.mutable_delivered()->set_epoch(1);
  world.on(2, "StartData", [&] { world.inject(2, serialize(delivered)); });
  world.on(
      2, "StartData",
      [&] {
        world.interrupt({Errc::cancelled, "interrupted"});
      },
      1, milliseconds(50));
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.outcome(2)->cause.what == "says that it has blocks that were not sent");
  BOOST_TEST(world.count(2, "CommitRequested") == 0);
}

BOOST_AUTO_TEST_CASE(a_root_that_was_stopped_does_not_hold_its_absence_against_others) {
  World world({.participants = 3, .data_time = seconds(3)});
  world.on(
      0, "StartData", [&] { world.pause(0, milliseconds(400)); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  expect_survivors(world, 0);

  Coordinator coordinator({}, {{MemberId{1}, "h1", "", {}}});
  coordinator.start(Time{});
  wire::Envelope welcome;
  welcome.mutable_welcome()->set_version(kProtocolVersion);
  coordinator.on_connected(MemberId{1}, Time{});
  coordinator.on_message(MemberId{1}, serialize(welcome), Time{});
  // The coordinator has not yet read the heartbeats that arrived during these 3 s.
  coordinator.on_timer(Time{} + seconds(3));
  while (auto output = coordinator.poll()) BOOST_TEST(!std::holds_alternative<MemberFinished>(*output));
  coordinator.on_timer(Time{} + seconds(3) + milliseconds(100));
  coordinator.on_timer(Time{} + seconds(3) + milliseconds(700));
  BOOST_TEST(!coordinator.finished());
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
