// The coordinator dies, and the survivors go on without it: who leads, what they agree on, when they give up.
#define BOOST_TEST_MODULE session succession
#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
namespace {

constexpr Time kLimit{seconds(300).ns};

/// Together the three hold every block 300 ms after the start, each less than everything.
World three_who_hold_everything_together() {
  return World({.participants = 3, .data_time = milliseconds(600)});
}

boost::test_tools::assertion_result is_ok(const World& world, std::size_t process) {
  const Record* outcome = world.own_outcome(process);
  boost::test_tools::assertion_result result(outcome != nullptr && outcome->status == Status::ok);
  if (!result) result.message() << (outcome == nullptr ? "no outcome" : outcome->cause.what);
  return result;
}

BOOST_AUTO_TEST_CASE(survivors_who_together_hold_everything_finish_without_the_root) {
  World world = three_who_hold_everything_together();
  Time died{};
  world.on(
      1, "StartData",
      [&] {
        died = world.now();
        BOOST_REQUIRE_EQUAL(world.held(1) | world.held(2) | world.held(3), kWhole);
        for (std::size_t i = 1; i <= 3; ++i) BOOST_REQUIRE(world.held(i) != kWhole);
        world.kill(0);
      },
      1, milliseconds(260));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(is_ok(world, i));
    BOOST_TEST((world.own_outcome(i)->at - died < seconds(1) + milliseconds(600)));
    BOOST_TEST(world.count(i, "EndData") >= 2);
  }
  BOOST_TEST(world.count(1, "LeadRequested") == 1, "the lowest leads");
  BOOST_TEST(world.count(2, "LeadRequested") + world.count(3, "LeadRequested") == 0, "and nobody else");
}

BOOST_AUTO_TEST_CASE(a_block_that_died_with_the_root_ends_the_job_for_all_by_name) {
  World world({.participants = 3, .data_time = seconds(5)});
  Time died{};
  world.on(
      1, "StartData", [&] { died = world.now(), world.kill(0); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(world.own_outcome(i)->cause.what.contains("nobody alive holds"));
    BOOST_TEST(world.count(i, "AbortRequested") == 1, "its partial file is removed");
    BOOST_TEST((world.own_outcome(i)->at - died < seconds(1)));
  }
}

BOOST_AUTO_TEST_CASE(a_root_that_falls_silent_is_succeeded_too) {
  World world = three_who_hold_everything_together();
  Time frozen{};
  world.on(
      1, "StartData", [&] { frozen = world.now(), world.freeze(0); }, 1, milliseconds(260));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(is_ok(world, i));
    BOOST_TEST((world.find(i, "EndData")->at - frozen <= milliseconds(720)));
  }
}

BOOST_AUTO_TEST_CASE(a_root_that_comes_back_finds_its_channels_closed_and_disturbs_nobody) {
  World world = three_who_hold_everything_together();
  world.on(
      1, "StartData", [&] { world.pause(0, milliseconds(900)); }, 1, milliseconds(260));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(is_ok(world, i));
    BOOST_TEST((world.outcome(i)->status == Status::failed), "as the root saw it");
  }
}

BOOST_AUTO_TEST_CASE(the_next_in_line_leads_when_the_first_died_with_the_root) {
  World world({.participants = 4, .data_time = milliseconds(600)});
  world.on(
      2, "StartData",
      [&] {
        BOOST_REQUIRE_EQUAL(world.held(2) | world.held(3) | world.held(4), kWhole);
        world.kill(0);
        world.kill(1);
      },
      1, milliseconds(300));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 2; i <= 4; ++i) BOOST_TEST(is_ok(world, i));
  BOOST_TEST(world.count(2, "LeadRequested") == 1);
}

BOOST_AUTO_TEST_CASE(the_death_of_who_leads_is_succeeded_in_turn) {
  World world({.participants = 4, .data_time = milliseconds(600)});
  world.on(
      2, "StartData",
      [&] {
        BOOST_REQUIRE_EQUAL(world.held(2) | world.held(3) | world.held(4), kWhole);
        world.kill(0);
      },
      1, milliseconds(300));
  world.on(
      2, "FormRequested", [&] { world.kill(1); }, 2);
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 2; i <= 4; ++i) BOOST_TEST(is_ok(world, i));
  BOOST_TEST(world.count(1, "LeadRequested") == 1);
  BOOST_TEST(world.count(2, "LeadRequested") == 1);
}

BOOST_AUTO_TEST_CASE(of_two_who_lead_the_higher_stands_down) {
  World world = three_who_hold_everything_together();
  // The first misses its turn, and leads late.
  world.on(
      1, "StartData",
      [&] {
        world.kill(0);
        world.pause(1, milliseconds(210));
      },
      1, milliseconds(260));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) BOOST_TEST(is_ok(world, i));
  BOOST_TEST(world.count(2, "LeadRequested") >= 1);
}

BOOST_AUTO_TEST_CASE(who_lost_a_root_that_is_alive_for_the_others_is_out) {
  World world({.participants = 3, .data_time = seconds(4)});
  world.on(
      2, "StartData", [&] { world.cut_from_root(2); }, 1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
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
  world.on(0, "MemberFinished", [&] {
    world.behaviour(2).never_progresses = false;
    world.kill(0);
  });
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(is_ok(world, 1));
  BOOST_TEST(is_ok(world, 2));
  BOOST_TEST(world.find(1, "FormRequested", 2)->members == (std::vector<std::string>{"h1", "h2"}));
}

BOOST_AUTO_TEST_CASE(bytes_that_nobody_alive_can_verify_are_not_committed) {
  World world = three_who_hold_everything_together();
  world.forget_expected();
  world.on(
      1, "StartData", [&] { world.kill(0); }, 1, milliseconds(260));
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) {
    BOOST_TEST(world.own_outcome(i)->cause.what.contains("nobody alive knows the digest"));
    BOOST_TEST(world.count(i, "CommitRequested") == 0);
  }
}

BOOST_AUTO_TEST_CASE(an_interrupt_is_not_a_death) {
  World world = three_who_hold_everything_together();
  world.on(
      1, "StartData",
      [&] {
        world.interrupt({Errc::cancelled, "interrupted"});
      },
      1, milliseconds(260));
  BOOST_REQUIRE(world.run(kLimit));
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
}  // namespace rdmc::session::test
