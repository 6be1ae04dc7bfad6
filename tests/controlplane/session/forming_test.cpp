#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(forming_test)
namespace {

constexpr Time kLimit{seconds(120).ns};

BOOST_AUTO_TEST_CASE(each_member_gets_the_blobs_made_for_it_and_starts_once) {
  World world({.participants = 6});
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 0; i < world.size(); ++i) {
    BOOST_TEST(world.find(i, "PeersReady")->blobs == 6u);
    BOOST_TEST(world.count(i, "StartData") == 1);
  }
}

BOOST_AUTO_TEST_CASE(nobody_starts_before_everybody_is_ready) {
  World world({.participants = 3});
  world.on(2, "PeersReady", [&] { world.pause(2, milliseconds(400)); });
  BOOST_REQUIRE(world.run(kLimit));
  const Time ready = world.find(2, "PeersReady")->at + milliseconds(400);
  for (std::size_t i = 0; i < world.size(); ++i) BOOST_TEST((world.find(i, "StartData")->at > ready));
}

BOOST_AUTO_TEST_CASE(a_member_lost_before_the_start_ends_the_epoch_and_ranks_close_up) {
  for (const std::string phase : {"FormRequested", "PeersReady"}) {
    World world({.participants = 4});
    world.on(2, phase, [&] { world.kill(2); });
    BOOST_REQUIRE(world.run(kLimit));
    BOOST_TEST((world.find(3, "EndData")->failed == std::set<std::string>{"h2"}));
    const std::vector<std::string> successor{"root", "h1", "h3", "h4"};
    BOOST_TEST(world.find(3, "FormRequested", 2)->members == successor);
    for (std::size_t i : {1, 3, 4}) {
      BOOST_TEST((world.outcome(i)->status == Status::ok));
      BOOST_TEST((world.find(i, "StartData")->epoch == Epoch{2}));
    }
  }
}

BOOST_AUTO_TEST_CASE(ranks_follow_the_order_that_the_application_gives_in_every_epoch) {
  // No member has the id 99. The members that are not in this list get the last ranks.
  World world(
      {.participants = 5, .order = {MemberId{4}, MemberId{99}, MemberId{2}, MemberId{4}, MemberId{5}}});
  world.on(2, "FormRequested", [&] { world.kill(2); });
  BOOST_REQUIRE(world.run(kLimit));
  const std::vector<std::string> first{"root", "h4", "h2", "h5", "h1", "h3"};
  BOOST_TEST(world.find(3, "FormRequested", 1)->members == first);
  const std::vector<std::string> second{"root", "h4", "h5", "h1", "h3"};
  BOOST_TEST(world.find(3, "FormRequested", 2)->members == second);
  for (std::size_t i : {1, 3, 4, 5}) BOOST_TEST((world.outcome(i)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(an_application_that_offers_nothing_or_never_becomes_ready_times_out_by_name) {
  for (const auto& [phase, due] : {std::pair{"FormRequested", "did not offer its queue pairs in time"},
                                   std::pair{"PeersReady", "did not become ready in time"}}) {
    World world({.participants = 3});
    world.behaviour(1).mute_from = phase;
    BOOST_REQUIRE(world.run(kLimit));
    BOOST_TEST(world.outcome(1)->cause.what == due);
    BOOST_TEST((world.own_outcome(1)->status == Status::failed));
    BOOST_TEST((world.outcome(3)->status == Status::ok));
  }
}

BOOST_AUTO_TEST_CASE(a_candidate_lost_while_parameters_are_chosen_has_them_asked_for_anew) {
  Coordinator coordinator(
      {}, {{kRoot, "root", "", {}}, {MemberId{1}, "h1", "", {}}, {MemberId{2}, "h2", "", {}}});
  coordinator.start(Time{});
  wire::Envelope welcome, accept;
  welcome.mutable_welcome()->set_version(kProtocolVersion);
  for (const MemberId member : {kRoot, MemberId{1}, MemberId{2}}) {
    accept.mutable_accept()->set_committed(member == kRoot);
    coordinator.on_connected(member, Time{});
    coordinator.on_message(member, serialize(welcome), Time{});
    coordinator.on_message(member, serialize(accept), Time{});
  }
  coordinator.on_closed(MemberId{2}, {Errc::peer_failed, "gone"}, Time{});
  std::vector<std::size_t> candidates;
  while (auto output = coordinator.poll())
    if (const auto* needed = std::get_if<ParametersNeeded>(&*output))
      candidates.push_back(needed->candidates.size());
  const std::vector<std::size_t> three_then_two{3, 2};
  BOOST_TEST(candidates == three_then_two);
  // This is the answer to an earlier question, so it is ignored.
  coordinator.form(Epoch{1}, {}, Time{});
  BOOST_TEST(coordinator.counters().epochs == 0u);
  coordinator.form(Epoch{2}, {}, Time{});
  BOOST_TEST(coordinator.counters().epochs == 1u);
}

BOOST_AUTO_TEST_CASE(blobs_for_a_member_that_does_not_exist_end_their_sender_only) {
  World world({.participants = 3});
  world.behaviour(1).mute_from = "FormRequested";
  world.on(1, "FormRequested", [&] {
    wire::Envelope envelope;
    envelope.mutable_blobs()->set_epoch(1);
    envelope.mutable_blobs()->add_blobs()->set_peer(9);
    world.inject(1, serialize(envelope));
  });
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST((world.outcome(1)->cause.code == Errc::protocol_error));
  BOOST_TEST((world.outcome(2)->status == Status::ok));
  BOOST_TEST((world.outcome(3)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_root_that_offers_nothing_or_never_becomes_ready_ends_the_job_for_all) {
  for (const std::string phase : {"FormRequested", "PeersReady"}) {
    World world({.participants = 3});
    world.behaviour(0).mute_from = phase;
    BOOST_REQUIRE(world.run(kLimit));
    BOOST_TEST((world.find(1, "EndData")->failed == std::set<std::string>{"root"}));
    for (std::size_t i = 1; i <= 3; ++i) {
      BOOST_TEST(world.outcome(i)->cause.what == "the root is lost to itself");
      BOOST_TEST(world.count(i, "AbortRequested") == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_lacks_blocks_is_no_source_for_the_root) {
  World world({.participants = 2});
  world.on(
      1, "JobOffered",
      [&] {
        wire::Envelope envelope;
        wire::Form& form = *envelope.mutable_form();
        form.set_epoch(1);
        form.add_members()->set_member(1);
        world.inject(1, serialize(envelope), true);
      },
      1, milliseconds(5));
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.own_outcome(1)->cause.what == "the coordinator sent a Form without a rank for us");
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(a_root_application_that_never_answers_ends_the_job) {
  Coordinator coordinator({}, {{MemberId{1}, "h1", "", {}}});
  coordinator.start(Time{});
  wire::Envelope welcome, accept, heartbeat;
  welcome.mutable_welcome()->set_version(kProtocolVersion);
  accept.mutable_accept();
  heartbeat.mutable_heartbeat();
  coordinator.on_connected(MemberId{1}, Time{});
  coordinator.on_message(MemberId{1}, serialize(welcome), Time{});
  coordinator.on_message(MemberId{1}, serialize(accept), Time{});
  Time now{};
  while (!coordinator.finished() && now < kLimit) {
    now = coordinator.next_deadline();
    coordinator.on_message(MemberId{1}, serialize(heartbeat), now);
    coordinator.on_timer(now);
  }
  BOOST_TEST(coordinator.finished());
  BOOST_TEST((now - Time{} < Timing{}.application_timeout + seconds(5)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
