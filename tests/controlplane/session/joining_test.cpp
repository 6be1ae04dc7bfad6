#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(joining_test)
namespace {

constexpr Time kLimit{seconds(60).ns};

Bytes hello_of_version(std::uint32_t version) {
  wire::Envelope envelope;
  wire::Hello& hello = *envelope.mutable_hello();
  hello.set_version(version);
  hello.set_session(std::string(16, 's'));
  hello.set_heartbeat_interval_ns(100'000'000);
  hello.set_suspect_after_ns(600'000'000);
  return serialize(envelope);
}

template <typename Event, typename Machine>
std::optional<Event> next(Machine& machine) {
  while (auto output = machine.poll())
    if (auto* event = std::get_if<Event>(&*output)) return std::move(*event);
  return std::nullopt;
}

BOOST_AUTO_TEST_CASE(everyone_who_accepts_gets_everything_and_one_outcome) {
  World world({.participants = 5});
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i < world.size(); ++i) {
    BOOST_TEST((world.outcome(i)->status == Status::ok));
    BOOST_TEST((world.own_outcome(i)->status == Status::ok));
    BOOST_TEST(world.count(i, "StartData") == 1);
  }
  BOOST_TEST(world.count(0, "JobFinished") == 1);
  BOOST_TEST(world.coordinator().counters().epochs == 1u);
}

BOOST_AUTO_TEST_CASE(who_fails_the_job_is_left_out_and_the_others_go_on) {
  World world({.participants = 3});
  world.behaviour(2).fails_at = "JobOffered";
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(2)->status == Status::failed));
  BOOST_TEST((world.outcome(2)->cause.code == Errc::no_space));
  const std::vector<std::string> formed{"root", "h1", "h3"};
  BOOST_TEST(world.find(1, "FormRequested")->members == formed);
  BOOST_TEST((world.outcome(1)->status == Status::ok));
  BOOST_TEST((world.outcome(3)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(an_application_that_does_not_answer_the_job_times_out_by_name) {
  World world({.participants = 2});
  world.behaviour(1).mute_from = "JobOffered";
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(1)->cause.code == Errc::timed_out));
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_connection_refused_for_its_key_is_refused_and_any_other_failed) {
  World world({.participants = 3});
  world.refuse_connection(1, {Errc::authentication, "has another key"});
  world.refuse_connection(2, {Errc::not_found, "has no such address"});
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(1)->status == Status::refused));
  BOOST_TEST((world.outcome(2)->status == Status::failed));
  BOOST_TEST((world.outcome(3)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_connection_never_made_ends_the_wait_for_it) {
  Coordinator coordinator({}, {{MemberId{1}, "h1", "", {}}});
  coordinator.start(Time{0});
  for (Time now{}; now <= Time{} + Timing{}.connect_timeout; now = coordinator.next_deadline())
    coordinator.on_timer(now);
  const auto finished = next<MemberFinished>(coordinator);
  BOOST_REQUIRE(finished);
  BOOST_TEST((finished->cause.code == Errc::timed_out));
  BOOST_TEST(next<JobFinished>(coordinator).has_value());
  BOOST_TEST((coordinator.next_deadline() == Time::never()));
}

BOOST_AUTO_TEST_CASE(who_never_greets_is_left_out) {
  World world({.participants = 2});
  world.cut(1);
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.outcome(1)->cause.what == "did not greet in time");
  BOOST_TEST((world.own_outcome(1)->status == Status::failed));
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(different_versions_part_with_a_named_error_on_both_sides) {
  Participant participant({"agent 1.0", {}});
  participant.on_connected(Time{});
  participant.on_message(hello_of_version(kProtocolVersion + 1), Time{});
  const auto welcome = next<Send>(participant);
  const auto finished = next<Finished>(participant);
  BOOST_REQUIRE((welcome && finished));
  BOOST_TEST((finished->cause.code == Errc::version_mismatch));

  wire::Envelope envelope;
  envelope.mutable_welcome()->set_version(kProtocolVersion + 1);
  envelope.mutable_welcome()->set_agent("agent 2.0");
  Coordinator coordinator({}, {{MemberId{1}, "h1", "", {}}});
  coordinator.start(Time{});
  coordinator.on_connected(MemberId{1}, Time{});
  coordinator.on_message(MemberId{1}, serialize(envelope), Time{});
  const auto outcome = next<MemberFinished>(coordinator);
  BOOST_REQUIRE(outcome);
  BOOST_TEST((outcome->cause.code == Errc::version_mismatch));
  BOOST_TEST(outcome->cause.what.contains("agent 2.0"));
}

BOOST_AUTO_TEST_CASE(a_hello_with_impossible_timing_is_a_protocol_error) {
  wire::Envelope envelope;
  BOOST_REQUIRE(envelope.ParseFromString(std::string(to_view(hello_of_version(kProtocolVersion)))));
  envelope.mutable_hello()->set_suspect_after_ns(150'000'000);
  Participant participant({"agent", {}});
  participant.on_connected(Time{});
  participant.on_message(serialize(envelope), Time{});
  const auto finished = next<Finished>(participant);
  BOOST_REQUIRE(finished);
  BOOST_TEST((finished->cause.code == Errc::protocol_error));
}

/// Returns the outcome of a member that answers a new job with `accept`, after a Welcome with `last_epoch`.
/// The member is not the root.
std::optional<MemberFinished> outcome_of(std::uint32_t last_epoch, const wire::Accept& accept) {
  wire::Envelope welcome, answer;
  welcome.mutable_welcome()->set_version(kProtocolVersion);
  welcome.mutable_welcome()->set_epoch(last_epoch);
  *answer.mutable_accept() = accept;
  Coordinator coordinator({}, {{kRoot, "root", "", {}}, {MemberId{1}, "h1", "", {}}});
  coordinator.start(Time{});
  coordinator.on_connected(MemberId{1}, Time{});
  coordinator.on_message(MemberId{1}, serialize(welcome), Time{});
  coordinator.on_message(MemberId{1}, serialize(answer), Time{});
  return next<MemberFinished>(coordinator);
}

BOOST_AUTO_TEST_CASE(only_the_root_has_a_copy_of_a_new_job) {
  wire::Accept nothing, committed, commits, reported, expected;
  committed.set_committed(true);
  commits.set_commits(true);
  reported.set_report("digest");
  expected.set_expected("digest");
  BOOST_TEST(!outcome_of(0, nothing).has_value());
  for (const auto& accept : {committed, commits, reported, expected}) {
    const auto outcome = outcome_of(0, accept);
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->cause.what == "has a copy of a job that is new");
  }
  const auto outcome = outcome_of(7, committed);
  BOOST_REQUIRE(outcome.has_value());
  BOOST_TEST(outcome->cause.what == "was in an epoch of a job that is new");
}

BOOST_AUTO_TEST_CASE(who_is_greeted_for_a_new_job_cannot_say_that_it_follows_another) {
  World world({.participants = 2});
  world.tamper(1, [](Bytes& bytes) {
    wire::Envelope envelope;
    if (envelope.ParseFromString(std::string(to_view(bytes))) && envelope.has_welcome())
      bytes = takeover_refusal();
  });
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.outcome(1)->cause.what == "spoke before its Welcome");
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_job_that_nobody_takes_ends_without_an_epoch) {
  World world({.participants = 3});
  for (std::size_t i = 1; i <= 3; ++i) world.behaviour(i).fails_at = "JobOffered";
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.count(0, "ParametersNeeded") == 0);
  BOOST_TEST(world.count(0, "JobFinished") == 1);

  World empty({.participants = 0});
  BOOST_TEST(empty.run(kLimit));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
