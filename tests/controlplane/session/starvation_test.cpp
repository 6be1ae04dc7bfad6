// Silence that is measured by who was starved itself, or who has not yet read what had arrived, is no
// evidence; a peer that is silent to somebody who runs is lost in time all the same.
#include <boost/test/unit_test.hpp>
#include <optional>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(starvation_test)
namespace {

constexpr Timing kTiming{};

/// A coordinator with one participant that owes its answer to the job, which may take long.
struct Coordinating {
  Coordinating() {
    machine.start(now);
    machine.on_connected(MemberId{1}, now);
    wire::Envelope welcome;
    welcome.mutable_welcome()->set_version(kProtocolVersion);
    machine.on_message(MemberId{1}, serialize(welcome), now);
  }
  void hear() {
    wire::Envelope envelope;
    envelope.mutable_heartbeat();
    machine.on_message(MemberId{1}, serialize(envelope), now);
  }
  bool has_lost_it() {
    while (const auto output = machine.poll())
      if (const auto* const finished = std::get_if<MemberFinished>(&*output)) lost = finished->cause.what;
    return lost.has_value();
  }

  Time now{seconds(1000).ns};
  Coordinator machine{{.session = {}, .timing = kTiming, .job_bytes = 1},
                      {{.member = MemberId{1}, .name = "h1", .address = {}, .job = {}}}};
  std::optional<std::string> lost;
};

/// The participant of such a one.
struct Participating {
  Participating() {
    machine.on_connected(now);
    wire::Envelope hello;
    hello.mutable_hello()->set_version(kProtocolVersion);
    hello.mutable_hello()->set_session(std::string(16, 's'));
    hello.mutable_hello()->set_heartbeat_interval_ns(
        static_cast<std::uint64_t>(kTiming.heartbeat_interval.ns));
    hello.mutable_hello()->set_suspect_after_ns(static_cast<std::uint64_t>(kTiming.suspect_after.ns));
    machine.on_message(serialize(hello), now);
    hear();
  }
  void hear() {
    wire::Envelope envelope;
    envelope.mutable_heartbeat();
    machine.on_message(serialize(envelope), now);
  }
  bool has_lost_it() {
    while (const auto output = machine.poll())
      if (const auto* const finished = std::get_if<Finished>(&*output)) lost = finished->cause.what;
    return lost.has_value();
  }

  Time now{seconds(1000).ns};
  Participant machine{{.agent = "test", .timing = kTiming}};
  std::optional<std::string> lost;
};

/// Every turn comes so much after it was due.
template <typename Side>
void run(Side& side, Duration time, Duration late) {
  for (const Time end = side.now + time; side.now < end && !side.has_lost_it();) {
    side.now = std::max(side.now, side.machine.next_deadline()) + late;
    side.machine.on_timer(side.now);
  }
}

template <typename Side>
void check_starved_in_slices() {
  Side side;
  run(side, kTiming.suspect_after * 3 / 2, milliseconds(100));
  BOOST_TEST(!side.has_lost_it());
}

template <typename Side>
void check_unread() {
  // The turn in which the silence is long enough is itself in time, but what has arrived is read after it.
  Side side;
  const Time heard = side.now;
  while (side.now < heard + kTiming.suspect_after - milliseconds(25)) {
    side.now = side.machine.next_deadline();
    if (side.now < heard + kTiming.suspect_after - milliseconds(25)) side.machine.on_timer(side.now);
  }
  side.now = heard + kTiming.suspect_after + milliseconds(1);
  side.machine.on_timer(side.now);
  side.hear();
  run(side, milliseconds(200), {});
  BOOST_TEST(!side.has_lost_it());
}

template <typename Side>
void check_dead(Duration late) {
  Side side;
  const Time heard = side.now;
  run(side, seconds(5), late);
  BOOST_TEST(side.has_lost_it());
  BOOST_TEST(side.lost.value_or("").ends_with("fell silent for 600 ms"), side.lost.value_or("nothing"));
  BOOST_TEST((side.now - heard <= kTiming.suspect_after + milliseconds(30) || late > Duration{}));
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_runs_in_slices_loses_nobody_for_the_time_between_them) {
  check_starved_in_slices<Coordinating>();
}
BOOST_AUTO_TEST_CASE(
    a_participant_that_runs_in_slices_does_not_lose_its_coordinator_for_the_time_between_them) {
  check_starved_in_slices<Participating>();
}
BOOST_AUTO_TEST_CASE(what_has_arrived_at_a_coordinator_is_read_before_it_judges) {
  check_unread<Coordinating>();
}
BOOST_AUTO_TEST_CASE(what_has_arrived_at_a_participant_is_read_before_it_judges) {
  check_unread<Participating>();
}
BOOST_AUTO_TEST_CASE(the_silent_are_lost_in_time_by_who_runs_and_at_last_by_who_is_always_late) {
  for (const Duration late : {Duration{}, milliseconds(20)}) {
    check_dead<Coordinating>(late);
    check_dead<Participating>(late);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
