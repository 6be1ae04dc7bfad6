// Tests of a failover: the coordinator dies, and the survivors continue without it. They check which survivor
// becomes the coordinator, what the survivors agree on, and when they give up.
#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(takeover_test)
namespace {

constexpr Time kLimit{seconds(300).ns};
/// The time from the start of the data until the participants together hold all blocks: in the world of
/// three_who_hold_everything_together(), and in that of four_who_hold_everything_together().
constexpr Duration kThreeHoldAll = milliseconds(260), kFourHoldAll = milliseconds(300);

/// From kThreeHoldAll on, the three participants together have every block, but no single participant has all
/// blocks.
World three_who_hold_everything_together() {
  return World({.participants = 3, .data_time = milliseconds(600)});
}

/// From kFourHoldAll on, the last three participants together have every block.
World four_who_hold_everything_together() {
  return World({.participants = 4, .data_time = milliseconds(600)});
}

void require_that_they_hold_everything(const World& world, std::size_t first, std::size_t last) {
  std::uint32_t held = 0;
  for (std::size_t i = first; i <= last; ++i) held |= world.held(i);
  BOOST_REQUIRE_EQUAL(held, kWhole);
}

/// Runs the world to its end. Calls `blow` when the data of the first epoch has run for the time `moment` in
/// process `observer`. Returns the time of this call.
Time run_with_blow(World& world, Duration moment, const std::function<void()>& blow,
                   std::size_t observer = 1) {
  Time struck{};
  world.on(
      observer, "StartData", [&] { struck = world.now(), blow(); }, 1, moment);
  BOOST_REQUIRE(world.run(kLimit));
  return struck;
}

boost::test_tools::assertion_result is_ok(const World& world, std::size_t process) {
  const Record* outcome = world.own_outcome(process);
  boost::test_tools::assertion_result result(outcome != nullptr && outcome->status == Status::ok);
  if (!result) result.message() << (outcome == nullptr ? "no outcome" : outcome->cause.what);
  return result;
}

void check_that_they_have_it(const World& world, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i <= last; ++i) BOOST_TEST(is_ok(world, i));
}

BOOST_AUTO_TEST_CASE(survivors_who_together_hold_everything_finish_without_the_root) {
  World world = three_who_hold_everything_together();
  const Time died = run_with_blow(world, kThreeHoldAll, [&] {
    require_that_they_hold_everything(world, 1, 3);
    for (std::size_t i = 1; i <= 3; ++i) BOOST_REQUIRE(world.held(i) != kWhole);
    world.kill(0);
  });
  check_that_they_have_it(world, 1, 3);
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST((world.own_outcome(i)->at - died < seconds(1) + milliseconds(600)));
    BOOST_TEST(world.count(i, "EndData") >= 2);
  }
  BOOST_TEST(world.count(1, "LeadRequested") == 1, "the lowest leads");
  BOOST_TEST(world.count(2, "LeadRequested") + world.count(3, "LeadRequested") == 0, "and nobody else");
}

BOOST_AUTO_TEST_CASE(a_block_that_died_with_the_root_ends_the_job_for_all_by_name) {
  World world({.participants = 3, .data_time = seconds(5)});
  const Time died = run_with_blow(world, milliseconds(100), [&] { world.kill(0); });
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(world.own_outcome(i)->cause.what.contains("nobody alive holds"));
    BOOST_TEST(world.count(i, "AbortRequested") == 1, "its partial file is removed");
    BOOST_TEST((world.own_outcome(i)->at - died < seconds(1)));
  }
}

BOOST_AUTO_TEST_CASE(a_root_that_falls_silent_is_succeeded_too) {
  World world = three_who_hold_everything_together();
  const Time frozen = run_with_blow(world, kThreeHoldAll, [&] { world.freeze(0); });
  check_that_they_have_it(world, 1, 3);
  for (std::size_t i = 1; i <= 3; ++i)
    BOOST_TEST((world.find(i, "EndData")->at - frozen <= milliseconds(720)));
}

BOOST_AUTO_TEST_CASE(a_root_that_comes_back_finds_its_channels_closed_and_disturbs_nobody) {
  World world = three_who_hold_everything_together();
  run_with_blow(world, kThreeHoldAll, [&] { world.pause(0, milliseconds(900)); });
  check_that_they_have_it(world, 1, 3);
  for (std::size_t i = 1; i <= 3; ++i)
    BOOST_TEST((world.outcome(i)->status == Status::failed), "as the root saw it");
}

BOOST_AUTO_TEST_CASE(the_next_in_line_leads_when_the_first_died_with_the_root) {
  World world = four_who_hold_everything_together();
  const auto blow = [&] {
    require_that_they_hold_everything(world, 2, 4);
    world.kill(0);
    world.kill(1);
  };
  run_with_blow(world, kFourHoldAll, blow, 2);
  check_that_they_have_it(world, 2, 4);
  BOOST_TEST(world.count(2, "LeadRequested") == 1);
}

BOOST_AUTO_TEST_CASE(the_death_of_who_leads_is_succeeded_in_turn) {
  World world = four_who_hold_everything_together();
  const auto blow = [&] {
    require_that_they_hold_everything(world, 2, 4);
    world.kill(0);
  };
  world.on(
      2, "FormRequested", [&] { world.kill(1); }, 2);
  run_with_blow(world, kFourHoldAll, blow, 2);
  check_that_they_have_it(world, 2, 4);
  BOOST_TEST(world.count(1, "LeadRequested") == 1);
  BOOST_TEST(world.count(2, "LeadRequested") == 1);
}

BOOST_AUTO_TEST_CASE(of_two_who_lead_the_higher_stands_down) {
  World world = three_who_hold_everything_together();
  // Member 1 is paused when it should become the coordinator, so it becomes the coordinator late.
  run_with_blow(world, kThreeHoldAll, [&] {
    world.kill(0);
    world.pause(1, milliseconds(210));
  });
  check_that_they_have_it(world, 1, 3);
  BOOST_TEST(world.count(2, "LeadRequested") >= 1);
}

BOOST_AUTO_TEST_CASE(who_lost_a_root_that_is_alive_for_the_others_is_out) {
  World world({.participants = 3, .data_time = seconds(4)});
  const auto blow = [&] { world.cut_from_root(2); };
  run_with_blow(world, milliseconds(100), blow, 2);
  BOOST_TEST((world.outcome(1)->status == Status::ok));
  BOOST_TEST((world.outcome(3)->status == Status::ok));
  BOOST_TEST(world.own_outcome(2)->cause.what == "the others go on without it");
  BOOST_TEST(world.count(2, "AbortRequested") == 1);
}

BOOST_AUTO_TEST_CASE(a_commit_under_way_stands_when_the_coordinator_dies) {
  World world({.participants = 1});
  world.on(1, "CommitRequested", [&] { world.kill(0); });
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(is_ok(world, 1));
}

BOOST_AUTO_TEST_CASE(who_has_committed_is_a_source_for_those_who_lack_blocks) {
  World world({.participants = 2, .seed = 3, .data_time = seconds(2)});
  world.behaviour(2).never_progresses = true;
  const auto die = [&] {
    world.behaviour(2).never_progresses = false;
    world.kill(0);
  };
  // Uses the second MemberFinished. The first one is for the root, which has all blocks from the start.
  world.on(0, "MemberFinished", die, 2);
  BOOST_REQUIRE(world.run(kLimit));
  check_that_they_have_it(world, 1, 2);
  BOOST_TEST(world.find(1, "FormRequested", 2)->members == (std::vector<std::string>{"h1", "h2"}));
}

BOOST_AUTO_TEST_CASE(bytes_that_nobody_alive_can_verify_are_not_committed) {
  World world = three_who_hold_everything_together();
  world.forget_expected();
  run_with_blow(world, kThreeHoldAll, [&] { world.kill(0); });
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(world.own_outcome(i)->cause.what.contains("nobody alive knows the digest"));
    BOOST_TEST(world.count(i, "CommitRequested") == 0);
  }
}

BOOST_AUTO_TEST_CASE(an_interrupt_is_not_a_death) {
  World world = three_who_hold_everything_together();
  const Error interrupted{Errc::cancelled, "interrupted"};
  run_with_blow(world, kThreeHoldAll, [&] { world.interrupt(interrupted); });
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(world.own_outcome(i)->cause.what == "interrupted");
    BOOST_TEST(world.count(i, "LeadRequested") == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_death_before_the_first_epoch_leaves_nothing_to_go_on_with) {
  World world({.participants = 3});
  world.on(2, "JobOffered", [&] { world.kill(0); });
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) BOOST_TEST(world.count(i, "LeadRequested") == 0);
}

BOOST_AUTO_TEST_CASE(who_knows_nothing_of_a_transfer_refuses_its_takeover) {
  wire::Envelope hello;
  hello.mutable_hello()->set_version(kProtocolVersion);
  hello.mutable_hello()->set_session(std::string(16, 's'));
  hello.mutable_hello()->set_heartbeat_interval_ns(100'000'000);
  hello.mutable_hello()->set_suspect_after_ns(600'000'000);
  hello.mutable_hello()->set_leader(2);
  BOOST_REQUIRE(takeover_of(serialize(hello)).has_value());
  BOOST_TEST((takeover_of(serialize(hello))->leader == MemberId{2}));
  Participant participant({"agent", {}});
  participant.on_connected(Time{});
  participant.on_message(serialize(hello), Time{});
  BOOST_TEST(participant.finished());
  hello.mutable_hello()->set_leader(0);
  BOOST_TEST(!takeover_of(serialize(hello)).has_value());
  BOOST_TEST(!takeover_of(takeover_refusal()).has_value());
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
