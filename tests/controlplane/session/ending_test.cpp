#include <boost/test/unit_test.hpp>

#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(ending_test)
namespace {

constexpr Time kLimit{seconds(120).ns};
using Names = std::set<std::string>;

BOOST_AUTO_TEST_CASE(a_second_loss_while_the_epoch_ends_is_named_too) {
  World world({.participants = 4});
  world.on(
      1, "StartData", [&] { world.kill(1); }, 1, milliseconds(50));
  world.on(2, "EndData", [&] { world.kill(2); });
  world.behaviour(2).mute_from = "EndData";
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i : {0, 3, 4}) {
    BOOST_TEST((world.find(i, "EndData")->failed == Names{"h1"}));
    BOOST_REQUIRE(world.find(i, "AlsoFailed") != nullptr);
    BOOST_TEST((world.find(i, "AlsoFailed")->failed == Names{"h2"}));
    BOOST_TEST((world.find(i, "AlsoFailed")->epoch == Epoch{1}));
  }
  BOOST_TEST((world.outcome(3)->status == Status::ok));
  BOOST_TEST(world.coordinator().counters().epochs == 2u);
}

BOOST_AUTO_TEST_CASE(a_data_plane_that_does_not_stop_times_out_by_name) {
  World world({.participants = 3});
  world.on(
      1, "StartData", [&] { world.kill(1); }, 1, milliseconds(50));
  world.behaviour(2).mute_from = "EndData";
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.outcome(2)->cause.what == "did not stop its data plane in time");
  BOOST_TEST((world.outcome(3)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(who_has_delivered_stays_delivered_and_takes_no_further_data) {
  World world({.participants = 3, .seed = 7, .data_time = seconds(2)});
  world.on(0, "DeliveryReported", [&] { world.kill(3); });
  BOOST_REQUIRE(world.run(kLimit));
  const std::string first = world.find(0, "DeliveryReported")->subject;
  BOOST_REQUIRE(first != "h3");
  const std::size_t early = first == "h1" ? 1 : 2, other = 3 - early;
  BOOST_TEST((world.outcome(early)->status == Status::ok));
  BOOST_TEST(world.count(early, "FormRequested") == 1);
  BOOST_TEST((world.outcome(other)->status == Status::ok));
  BOOST_TEST(world.count(other, "FormRequested") == 2);
  BOOST_TEST(world.find(other, "FormRequested", 2)->members.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_committed_member_is_kept_until_nobody_lacks_anything) {
  World world({.participants = 3, .seed = 7, .data_time = seconds(2)});
  BOOST_REQUIRE(world.run(kLimit));
  const Time last = world.find(0, "DeliveryReported", 3)->at;
  for (std::size_t i = 1; i <= 3; ++i) BOOST_TEST((world.own_outcome(i)->at > last));
}

BOOST_AUTO_TEST_CASE(a_committed_member_that_dies_ends_the_epoch_but_stays_ok) {
  World world({.participants = 3, .seed = 7, .data_time = seconds(2)});
  const auto kill_who_has_it = [&] {
    for (std::size_t i = 1; i <= 3; ++i)
      if (world.outcome(i) != nullptr) world.kill(i);
  };
  // Uses the second MemberFinished. The first one is for the root, which has all blocks from the start.
  world.on(0, "MemberFinished", kill_who_has_it, 2);
  BOOST_REQUIRE(world.run(kLimit));
  for (std::size_t i = 1; i <= 3; ++i) BOOST_TEST((world.outcome(i)->status == Status::ok));
  BOOST_TEST(world.coordinator().counters().epochs == 2u);
}

BOOST_AUTO_TEST_CASE(messages_of_an_epoch_that_is_over_are_counted_and_ignored) {
  World world({.participants = 3});
  world.on(
      1, "StartData", [&] { world.kill(1); }, 1, milliseconds(50));
  world.on(
      2, "StartData",
      [&] {
        wire::Envelope suspect, ready, progress;
        suspect.mutable_suspect()->set_epoch(1);
        suspect.mutable_suspect()->set_rank(1);
        ready.mutable_ready()->set_epoch(1);
        progress.mutable_progress()->set_epoch(1);
        for (const wire::Envelope& late : {suspect, ready, progress}) world.inject(2, serialize(late));
      },
      2);
  BOOST_REQUIRE(world.run(kLimit));
  BOOST_TEST(world.coordinator().counters().late_messages >= 3u);
  BOOST_TEST(world.coordinator().counters().protocol_errors == 0u);
  BOOST_TEST((world.outcome(2)->status == Status::ok));
}

BOOST_AUTO_TEST_CASE(messages_of_an_epoch_to_come_or_out_of_phase_end_their_sender_only) {
  const auto ends_the_sender = [](const wire::Envelope& wrong) {
    World world({.participants = 3});
    world.on(
        2, "StartData", [&] { world.inject(2, serialize(wrong)); }, 1, milliseconds(20));
    BOOST_REQUIRE(world.run(kLimit));
    BOOST_TEST((world.outcome(2)->cause.code == Errc::protocol_error));
    BOOST_TEST((world.outcome(1)->status == Status::ok));
    BOOST_TEST((world.outcome(3)->status == Status::ok));
  };
  wire::Envelope wrong;
  wrong.mutable_progress()->set_epoch(2);
  ends_the_sender(wrong);
  wrong.mutable_ready()->set_epoch(1);
  ends_the_sender(wrong);
  wrong.mutable_ended()->set_epoch(1);
  ends_the_sender(wrong);
  wrong.mutable_committed();
  ends_the_sender(wrong);
  wrong.mutable_accept();
  ends_the_sender(wrong);
  wrong.mutable_form();
  ends_the_sender(wrong);
  wrong.mutable_suspect()->set_epoch(1);
  wrong.mutable_suspect()->set_rank(77);
  ends_the_sender(wrong);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
