// Tests that silence is no evidence in two cases: if the process that measures the silence got no processor
// time, or if this process has not yet read the messages that have arrived. However, a process that runs must
// still lose a silent peer in time.
#include <boost/test/unit_test.hpp>
#include <optional>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"
#include "controlplane/session/participant.hpp"
#include "tests/controlplane/session/messages_by_hand.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(starvation_test)
namespace {

constexpr Timing kTiming{};

/// A coordinator with one participant. The participant must answer the session job. Its answer may come late.
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

/// The participant of a coordinator like the one above.
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

/// A coordinator in the middle of an epoch with the root and two receivers.
struct Leading {
  Leading() {
    machine.start(now);
    for (std::uint32_t i = 0; i < 3; ++i) {
      machine.on_connected(MemberId{i}, now);
      say(i, [](wire::Envelope& e) { e.mutable_welcome()->set_version(kProtocolVersion); });
      say(i, [&](wire::Envelope& e) { e.mutable_accept()->set_committed(i == 0); });
    }
    machine.form(Epoch{1}, {}, now);
    say_all([](wire::Envelope& e) { e.mutable_blobs()->set_epoch(1); });
    say_all([](wire::Envelope& e) { e.mutable_ready()->set_epoch(1); });
    note_outputs();
  }
  template <typename Fill>
  void say(std::uint32_t member, Fill fill) {
    test::say(machine, member, now, fill);
  }
  template <typename Fill>
  void say_all(Fill fill) {
    for (std::uint32_t i = 0; i < 3; ++i) say(i, fill);
  }
  /// h1 suspects h2, and the coordinator sends probes to both.
  void suspect() {
    say(1, [](wire::Envelope& e) {
      e.mutable_suspect()->set_epoch(1);
      e.mutable_suspect()->set_rank(2);
    });
    note_outputs();
    BOOST_REQUIRE(probes.size() == 2u);
  }
  void answer_probes() {
    for (const auto& [member, nonce] : probes)
      say(member, [&](wire::Envelope& e) { e.mutable_probe_answer()->set_nonce(nonce); });
  }
  void look_at(Time time) {
    now = time;
    machine.on_timer(now);
    note_outputs();
  }
  void note_outputs() {
    while (const auto output = machine.poll()) {
      if (const auto* const finished = std::get_if<MemberFinished>(&*output)) {
        if (finished->status != Status::ok) lost.push_back(finished->cause.what);
      } else if (const auto* const sent = std::get_if<Send>(&*output)) {
        if (const auto envelope = parse_envelope(sent->bytes); envelope && envelope->has_probe())
          probes.emplace_back(value_of(sent->member), envelope->probe().nonce());
      }
    }
  }

  Time now{seconds(1000).ns};
  Coordinator machine{{.session = {}, .timing = kTiming, .job_bytes = 1},
                      {{.member = MemberId{0}, .name = "root", .address = {}, .job = {}},
                       {.member = MemberId{1}, .name = "h1", .address = {}, .job = {}},
                       {.member = MemberId{2}, .name = "h2", .address = {}, .job = {}}}};
  std::vector<std::pair<std::uint32_t, std::uint64_t>> probes;
  std::vector<std::string> lost;
};

/// Runs the timer of `side` for `time`. Each call of the timer is late by `late`.
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
  // The timer runs in time when the silence is long enough. However, a message has arrived before, and it is
  // read only after the timer.
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

/// The other side has sent its message in time, but the timer runs before the message is read.
template <typename Side>
void check_stopped(Duration length) {
  Side side;
  run(side, milliseconds(200), {});
  side.now = side.now + length;
  side.machine.on_timer(side.now);
  BOOST_TEST(!side.has_lost_it());
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

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_stopped_for_longer_than_an_answer_may_take_reads_it_first) {
  check_stopped<Coordinating>(kTiming.job_timeout * 2);
}
BOOST_AUTO_TEST_CASE(a_participant_that_was_stopped_for_longer_than_its_coordinator_may_take_reads_it_first) {
  check_stopped<Participating>(kTiming.greet_timeout * 2);
}
BOOST_AUTO_TEST_CASE(a_participant_that_was_stopped_before_it_was_greeted_still_takes_the_greeting) {
  Time now{seconds(1000).ns};
  Participant participant{{.agent = "test", .timing = kTiming}};
  participant.on_connected(now);
  now = now + kTiming.greet_timeout * 2;
  participant.on_timer(now);
  BOOST_TEST(!participant.finished());
  for (const Time end = now + kTiming.greet_timeout * 2; now < end && !participant.finished();
       participant.on_timer(now))
    now = participant.next_deadline();
  BOOST_TEST(participant.finished());  // The wait must have a limit.
}
BOOST_AUTO_TEST_CASE(late_deadlines_pass_at_last_for_who_is_always_late) {
  Coordinating coordinating;
  const Time asked = coordinating.now;
  while (!coordinating.has_lost_it() && coordinating.now < asked + kTiming.job_timeout * 10) {
    coordinating.now = coordinating.machine.next_deadline() + milliseconds(100);
    coordinating.machine.on_timer(coordinating.now);
    coordinating.hear();
  }
  BOOST_TEST(coordinating.lost.value_or("") == "did not answer the job in time");
}

BOOST_AUTO_TEST_CASE(a_probe_is_not_unanswered_while_the_coordinator_does_not_run) {
  for (const Duration late : {milliseconds(100), seconds(20)}) {
    Leading side;
    side.suspect();
    for (int look = 0; look < 3; ++look) side.look_at(side.machine.next_deadline() + late);
    BOOST_TEST(side.lost.empty());
    side.answer_probes();
    for (const Time end = side.now + kTiming.probe_timeout; side.now < end;)
      side.look_at(side.machine.next_deadline());
    BOOST_REQUIRE(side.lost.size() == 1u);
    BOOST_TEST(side.lost[0].starts_with("has a broken data link to h1"), side.lost[0]);
  }
}
BOOST_AUTO_TEST_CASE(an_answer_to_a_probe_that_arrived_before_the_last_look_is_read_before_the_judgement) {
  Leading side;
  const Time asked = side.now;
  side.suspect();
  for (const int ms : {0, 45, 90, 135, 180, 225, 270}) side.look_at(asked + milliseconds(ms));
  side.look_at(asked + kTiming.probe_timeout + milliseconds(10));
  BOOST_TEST(side.lost.empty());
  side.answer_probes();
  side.look_at(side.machine.next_deadline());
  BOOST_REQUIRE(side.lost.size() == 1u);
  BOOST_TEST(side.lost[0].starts_with("has a broken data link to h1"), side.lost[0]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
