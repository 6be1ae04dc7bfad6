#include "dataplane/sim/simulation.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(simulation_test)

using namespace rdmc;
using namespace rdmc::sim;

namespace {

struct Recorder final : Process {
  std::vector<Time> turns;
  Time deadline = Time::never();
  std::function<void(Time)> body;

  void run(Time now) override {
    turns.push_back(now);
    if (body) body(now);
  }
  Time next_deadline() override { return deadline; }
};

constexpr Time at_us(std::int64_t us) {
  return Time{us * 1000};
}

}  // namespace

BOOST_AUTO_TEST_CASE(events_come_in_the_order_of_time_and_then_of_scheduling) {
  struct Target final : EventTarget {
    void on_event(std::uint64_t argument) override { seen.push_back(argument); }
    std::vector<std::uint64_t> seen;
  };
  BOOST_TEST(rc::check([](const std::vector<std::uint8_t>& times) {
    Simulation simulation(1);
    Target target;
    std::vector<std::pair<std::uint8_t, std::uint64_t>> expected;
    for (std::uint64_t i = 0; i < times.size(); ++i) {
      simulation.schedule(Time{times[i]}, target, i);
      expected.emplace_back(times[i], i);
    }
    std::sort(expected.begin(), expected.end());
    while (simulation.step()) continue;
    RC_ASSERT(target.seen.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) RC_ASSERT(target.seen[i] == expected[i].second);
  }));
}

BOOST_AUTO_TEST_CASE(a_process_runs_at_once_when_woken_and_at_its_deadline) {
  Simulation simulation(1);
  Recorder process;
  const ProcessId id = simulation.add_process(HostId{0}, process);
  process.deadline = at_us(50);
  simulation.at(at_us(20), [&] { simulation.wake(id); });
  simulation.run_until(at_us(49));
  BOOST_TEST((process.turns == std::vector<Time>{at_us(0), at_us(20)}));
  // This is too late, because the simulation has read the deadline after the last turn.
  process.deadline = Time::never();
  simulation.run_until(at_us(1000));
  BOOST_TEST((process.turns == std::vector<Time>{at_us(0), at_us(20), at_us(50)}));
}

BOOST_AUTO_TEST_CASE(a_deadline_that_moves_earlier_or_later_is_followed) {
  Simulation simulation(1);
  Recorder process;
  const ProcessId id = simulation.add_process(HostId{0}, process);
  process.body = [&](Time now) {
    if (now == at_us(0)) process.deadline = at_us(100);
    if (now == at_us(10)) process.deadline = at_us(40);
    if (now == at_us(20)) process.deadline = at_us(300);
    if (now == at_us(300)) process.deadline = Time::never();
  };
  simulation.at(at_us(10), [&] { simulation.wake(id); });
  simulation.at(at_us(20), [&] { simulation.wake(id); });
  simulation.run_until(at_us(10'000));
  BOOST_TEST((process.turns == std::vector<Time>{at_us(0), at_us(10), at_us(20), at_us(300)}));
}

BOOST_AUTO_TEST_CASE(a_turn_takes_time_and_wakes_meanwhile_cause_one_more) {
  Simulation simulation(1);
  Recorder process;
  const ProcessId id =
      simulation.add_process(HostId{0}, process, {.wake_latency = microseconds(2), .turn = microseconds(30)});
  for (const int us : {10, 11, 12}) simulation.at(at_us(us), [&] { simulation.wake(id); });
  simulation.run_until(at_us(500));
  BOOST_TEST((process.turns == std::vector<Time>{at_us(2), at_us(32)}));
}

BOOST_AUTO_TEST_CASE(a_process_that_always_has_more_to_do_gets_turn_after_turn) {
  Simulation simulation(1);
  Recorder process;
  process.deadline = Time{};
  simulation.add_process(HostId{0}, process, {.turn = microseconds(10)});
  simulation.run_until(at_us(95));
  BOOST_TEST(process.turns.size() == 10u);
  BOOST_TEST((process.turns.back() == at_us(90)));
}

BOOST_AUTO_TEST_CASE(a_paused_process_is_silent_and_catches_up_when_resumed) {
  Simulation simulation(1);
  Recorder process;
  process.deadline = at_us(40);
  const ProcessId id = simulation.add_process(HostId{0}, process);
  process.body = [&](Time now) {
    if (now >= at_us(40)) process.deadline = Time::never();
  };
  simulation.at(at_us(10), [&] { simulation.pause(id); });
  simulation.at(at_us(20), [&] { simulation.wake(id); });
  simulation.at(at_us(90), [&] { simulation.resume(id); });
  simulation.run_until(at_us(500));
  BOOST_TEST((process.turns == std::vector<Time>{at_us(0), at_us(90)}));
  BOOST_TEST(simulation.faults()[Fault::pause] == 1u);
}

BOOST_AUTO_TEST_CASE(a_killed_process_never_runs_again_and_another_takes_its_place) {
  Simulation simulation(1);
  Recorder process, successor;
  process.deadline = at_us(40);
  const ProcessId id = simulation.add_process(HostId{3}, process);
  std::vector<ProcessId> reported;
  simulation.on_kill([&](ProcessId dead) { reported.push_back(dead); });
  simulation.at(at_us(10), [&] {
    simulation.kill(id);
    simulation.kill(id);
  });
  simulation.at(at_us(20), [&] {
    simulation.wake(id);
    simulation.resume(id);
    simulation.add_process(HostId{3}, successor);
  });
  simulation.run_until(at_us(500));
  BOOST_TEST((process.turns == std::vector<Time>{at_us(0)}));
  BOOST_TEST((successor.turns == std::vector<Time>{at_us(20)}));
  BOOST_TEST((reported == std::vector<ProcessId>{id}));
  BOOST_TEST(simulation.faults()[Fault::kill] == 1u);
}

BOOST_AUTO_TEST_CASE(running_until_a_condition_stops_right_after_the_event_that_fulfils_it) {
  Simulation simulation(1);
  int count = 0;
  for (int i = 1; i <= 10; ++i) simulation.at(at_us(i), [&] { ++count; });
  BOOST_TEST(simulation.run_until([&] { return count == 4; }, at_us(100)));
  BOOST_TEST((simulation.now() == at_us(4)));
  BOOST_TEST(!simulation.run_until([&] { return count == 99; }, at_us(7)));
  BOOST_TEST(count == 7);
}

BOOST_AUTO_TEST_CASE(the_trace_tells_apart_what_differs_in_anything) {
  const auto hash_of = [](Time at, TraceKind kind, std::uint32_t from, std::uint32_t to,
                          std::uint64_t digest) {
    Trace trace;
    trace.record(Time{7}, TraceKind::process_run, 0, 0, 0);
    trace.record(at, kind, from, to, digest);
    return trace.hash();
  };
  const auto kSent = TraceKind::datagram_sent;
  const std::uint64_t base = hash_of(Time{1}, kSent, 2, 3, 4);
  BOOST_TEST(hash_of(Time{1}, kSent, 2, 3, 4) == base);
  BOOST_TEST(hash_of(Time{2}, kSent, 2, 3, 4) != base);
  BOOST_TEST(hash_of(Time{1}, TraceKind::datagram_lost, 2, 3, 4) != base);
  BOOST_TEST(hash_of(Time{1}, kSent, 3, 2, 4) != base);
  BOOST_TEST(hash_of(Time{1}, kSent, 2, 3, 5) != base);
  BOOST_TEST(hash_string(0x0123456789ABCDEF) == "0123456789abcdef");
}

BOOST_AUTO_TEST_SUITE_END()
