#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(committing_test)
namespace {

// A participant waits for its own application for up to `commit_timeout`. If it then loses its coordinator,
// it waits for the same time again.
const Time kLimit = Time{} + Timing{}.commit_timeout * 2 + seconds(60);

BOOST_AUTO_TEST_CASE(a_wrong_digest_fails_that_member_and_is_cleaned_up) {
  World world({.participants = 3});
  world.behaviour(2).wrong_digest = true;
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(2)->cause.code == Errc::corrupt));
  BOOST_TEST(world.count(2, "CommitRequested") == 0);
  BOOST_TEST(world.count(2, "AbortRequested") == 1);
  BOOST_TEST((world.outcome(1)->status == Status::ok));
  BOOST_TEST((world.outcome(3)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_rename_that_fails_fails_that_member_only) {
  World world({.participants = 3});
  world.behaviour(1).fails_at = "CommitRequested";
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(1)->cause.code == Errc::no_space));
  BOOST_TEST(world.outcome(1)->cause.what == "disk full");
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_commit_never_answered_ends_with_a_remark_that_the_copy_may_be_there) {
  World world({.participants = 2});
  world.behaviour(1).mute_from = "CommitRequested";
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(1)->cause.code == Errc::timed_out));
  BOOST_TEST(world.outcome(1)->cause.what.contains("may be in place"));
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(an_interrupt_waits_until_unfinished_files_are_removed) {
  World world({.participants = 4, .data_time = seconds(5)});
  world.on(
      0, "StartData",
      [&] {
        world.interrupt({Errc::cancelled, "interrupted"});
      },
      1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  const Time finished = world.find(0, "JobFinished")->at;
  for (std::size_t i = 1; i < world.size(); ++i) {
    BOOST_TEST((world.outcome(i)->cause.code == Errc::cancelled));
    BOOST_TEST((world.own_outcome(i)->cause.what == "interrupted"));
    BOOST_TEST((world.own_outcome(i)->at < finished));
  }
  BOOST_TEST(world.count(0, "Finished") == 1);
}

BOOST_AUTO_TEST_CASE(an_interrupt_is_bounded_by_the_abort_timeout) {
  World world({.participants = 3, .data_time = seconds(5)});
  world.behaviour(2).mute_from = "AbortRequested";
  world.on(3, "StartData", [&] { world.freeze(3); });
  world.on(
      0, "StartData",
      [&] {
        world.interrupt({Errc::cancelled, "interrupted"});
      },
      1, milliseconds(100));
  BOOST_REQUIRE(world.run(kLimit));
  const Duration took = world.find(0, "JobFinished")->at - world.find(0, "StartData")->at;
  BOOST_TEST((took < Timing{}.abort_timeout + milliseconds(200)));
}

BOOST_AUTO_TEST_CASE(an_interrupt_does_not_undo_a_commit_under_way) {
  World world({.participants = 2});
  world.behaviour(2).never_progresses = true;
  world.on(1, "CommitRequested", [&] { world.interrupt({Errc::cancelled, "interrupted"}); });
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(1)->status == Status::ok));
  BOOST_TEST((world.own_outcome(1)->status == Status::ok));
  BOOST_TEST((world.outcome(2)->cause.code == Errc::cancelled));
}

BOOST_AUTO_TEST_CASE(an_interrupt_in_any_phase_ends_everyone) {
  for (const char* phase :
       {"JobOffered", "FormRequested", "PeersReady", "StartData", "EndData", "CommitRequested"}) {
    World world({.participants = 3});
    world.on(2, phase, [&] { world.interrupt({Errc::cancelled, "interrupted"}); });
    BOOST_REQUIRE(world.run(Time{seconds(5).ns}));
    for (std::size_t i = 1; i <= 3; ++i) {
      BOOST_TEST(world.count(i, "Finished") == 1);
      BOOST_TEST((world.outcome(i)->status == world.own_outcome(i)->status));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_only_heartbeats_is_not_waited_for_for_ever) {
  Participant participant({"agent", {}});
  wire::Envelope hello, job, heartbeat;
  hello.mutable_hello()->set_version(kProtocolVersion);
  hello.mutable_hello()->set_session(std::string(16, 's'));
  hello.mutable_hello()->set_heartbeat_interval_ns(100'000'000);
  hello.mutable_hello()->set_suspect_after_ns(600'000'000);
  job.mutable_job();
  heartbeat.mutable_heartbeat();
  participant.on_connected(Time{});
  participant.on_message(serialize(hello), Time{});
  participant.on_message(serialize(job), Time{});
  participant.accept({}, Time{});
  Time now{};
  while (!participant.finished() && now < Time{} + seconds(400)) {
    now = participant.next_deadline();
    participant.on_message(serialize(heartbeat), now);
    participant.on_timer(now);
  }
  BOOST_TEST(participant.finished());
  BOOST_TEST((now - Time{} >= Timing{}.patience));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
