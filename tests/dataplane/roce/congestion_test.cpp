// Tests marks and notifications, and their effect on the sender (IBTA Annex A17.9; DCQCN).
#include "dataplane/roce/congestion.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(congestion_test)
namespace {

In marked(int psn) {
  return {.opcode = Opcode::write_only, .psn = psn, .bytes = 1, .length = 1, .marked = true};
}

/// A congestion window whose round trips are all short.
struct Controlled {
  void round() {
    now = now + kRoundTrip;
    path.sample(kRoundTrip, kRoundTrip, true, now);
    for (int i = 0; i < 2; ++i) congestion.on_acknowledge(kRoundTrip, path, 1024, false, now);
  }
  static constexpr Duration kRoundTrip = microseconds(100);
  Congestion congestion{{.enabled = true, .path_mtu = 1024, .window_bytes = 1 << 20}};
  RoundTrip path;
  Time now = Time{} + seconds(1);
};

}  // namespace

BOOST_AUTO_TEST_CASE(marked_packets_are_answered_by_one_notification_in_50_us) {
  Script s;
  s.in(marked(0));
  s.in(marked(1));
  CHECK_LINES(s.out(), "notification");
  s.wait(microseconds(49));
  s.in(marked(2));
  CHECK_LINES(s.out());
  s.wait(microseconds(1));
  s.in(marked(3));
  CHECK_LINES(s.out(), "notification");
  s.wait(seconds(1));
  s.in({.opcode = Opcode::write_only, .psn = 4, .bytes = 1, .ask = true, .length = 1});
  CHECK_LINES(s.out(), "ack 4 msn 5");
  BOOST_TEST(s.connection().counters().notifications_sent == 2);
}

BOOST_AUTO_TEST_CASE(a_notification_is_due_at_once_and_gets_no_answer) {
  Script s;
  s.in(marked(0));
  BOOST_TEST((s.connection().next_deadline() <= s.now()));
  s.out();
  s.notify();
  CHECK_LINES(s.out());
  BOOST_TEST(s.connection().counters().notifications_received == 1);
  s.connection().close();
  s.notify();
  CHECK_LINES(s.out());
}

BOOST_AUTO_TEST_CASE(the_first_notification_halves_what_may_be_under_way) {
  for (const bool control : {true, false}) {
    Script s({.path_mtu = 1024, .congestion_control = control, .window_bytes = 64 << 10});
    BOOST_REQUIRE(s.post(SendOpcode::write, 1 << 20).has_value());
    s.notify();
    BOOST_TEST(s.out().size() == (control ? 64u : 128u));  // Each packet is charged 512 bytes.
  }
}

BOOST_AUTO_TEST_CASE(notifications_of_one_round_trip_cut_once) {
  Controlled c;
  c.round();
  const std::uint32_t before = c.congestion.window();
  for (int i = 0; i < 4; ++i) {
    c.congestion.on_notification(c.path, c.now);
    c.now = c.now + microseconds(20);
  }
  BOOST_TEST(c.congestion.window() == before / 2);
  c.now = c.now + microseconds(20);
  c.congestion.on_notification(c.path, c.now);
  BOOST_TEST(c.congestion.window() < before / 2);
}

BOOST_AUTO_TEST_CASE(after_a_cut_the_window_finds_back_in_a_few_round_trips) {
  Controlled c;
  for (int i = 0; i < 3; ++i) c.round();
  const std::uint32_t before = c.congestion.window();
  c.congestion.on_notification(c.path, c.now);
  std::uint32_t last = c.congestion.window();
  for (int i = 0; i < 5; ++i) {
    c.round();
    BOOST_TEST(c.congestion.window() > last);
    last = c.congestion.window();
  }
  BOOST_TEST(last > before * 0.97);
  BOOST_TEST(last <= before);
}

BOOST_AUTO_TEST_CASE(the_rarer_the_marks_the_smaller_the_cut) {
  Controlled c;
  double share = 0;
  for (int i = 0; i < 20; ++i) {
    c.now = c.now + milliseconds(10);
    c.round();
    const std::uint32_t before = c.congestion.window();
    c.congestion.on_notification(c.path, c.now);
    share = static_cast<double>(c.congestion.window()) / before;
    for (int back = 0; back < 10; ++back) c.round();
  }
  BOOST_TEST(share > 0.9);
}

BOOST_AUTO_TEST_CASE(read_responses_that_met_congestion_are_spread) {
  Script s;
  s.in({.opcode = Opcode::read_request, .psn = 0, .ask = true, .length = 100 * kMtu});
  s.notify();
  BOOST_TEST(s.sent().size() == 16u);
  BOOST_TEST(s.sent().empty());
  BOOST_TEST((s.connection().next_deadline() == s.now() + microseconds(20)));
  s.wait(microseconds(20));
  for (int burst = 0; burst < 4; ++burst) {
    BOOST_TEST(s.sent().size() == 16u);
    s.wait(microseconds(20));
  }
  const auto pause = [&] { return s.connection().next_deadline() - s.now(); };
  s.notify();
  s.notify();  // This notification is for the same congestion.
  BOOST_TEST(s.sent().size() == 16u);
  BOOST_TEST((pause() > microseconds(20) && pause() < microseconds(40)));
  s.wait(pause());
  BOOST_TEST(s.sent().size() == 4u);
}

namespace {

/// Returns how many packets are in flight after one round trip of 0.1 ms and 64 round trips of 5 ms. In each
/// of the 64 round trips, a packet waits for `egress` in this host, and its acknowledgement waits for `back`
/// on the path back.
std::size_t packets_under_way(Duration egress, Duration back = {}) {
  Script s({.path_mtu = 4096, .selective_repeat = true, .congestion_control = true});
  std::size_t under_way = 0;
  int acknowledged = -1;
  for (int round = 0; round <= 64; ++round) {
    while (s.post(SendOpcode::write, 1 << 20)) continue;
    under_way = s.sent().size();
    s.wait(round == 0 ? microseconds(100) : milliseconds(5));
    s.set_egress({.wait = egress});
    for (std::size_t i = 0; i < under_way; ++i)
      ++acknowledged, s.x_ack(acknowledged, acknowledged, "", round == 0 ? Duration{} : back);
    s.completions();
  }
  return under_way;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_queue_in_our_own_host_is_no_congestion) {
  BOOST_TEST(packets_under_way(microseconds(4900)) == (1U << 20) / 4096);
  BOOST_TEST(packets_under_way({}) < 100U);
}

BOOST_AUTO_TEST_CASE(a_queue_on_the_way_back_is_no_congestion_either) {
  BOOST_TEST(packets_under_way({}, microseconds(4900)) == (1U << 20) / 4096);
  BOOST_TEST(packets_under_way({}, microseconds(1000)) < 100U);
}

BOOST_AUTO_TEST_CASE(the_queue_on_one_way_is_told_by_two_clocks_that_wrap_and_drift) {
  for (const std::uint32_t ahead : {0U, 5U, 0x7FFF'FFFFU, 0x8000'0000U, 0xFFFF'FFF0U}) {
    OneWayQueue queue;
    Time now = Time{} + seconds(3);
    std::uint64_t drift = 0;
    const auto sample = [&](std::int64_t waited) {
      now = now + milliseconds(10);
      drift += 500;  // This is 50 ppm of 10 ms.
      const auto departure = static_cast<std::uint32_t>(now.ns);
      const auto arrival =
          departure + ahead + static_cast<std::uint32_t>(40'000 + waited) + static_cast<std::uint32_t>(drift);
      return queue.sample(departure, arrival, now).ns;
    };
    BOOST_TEST(sample(1'000'000) == 0);
    BOOST_TEST(sample(0) == 0);
    for (int i = 0; i < 3000; ++i) {
      const std::int64_t told = sample(i % 7 * 100'000) - i % 7 * 100'000;
      BOOST_TEST_REQUIRE((told >= 0 && told < 3'000'000));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_acknowledgement_tells_how_long_it_waits_in_its_host) {
  Script s({.selective_repeat = true});
  s.in({.opcode = Opcode::x_write_last, .psn = 0, .bytes = 8, .ask = true, .length = 8});
  s.wait(microseconds(7));
  s.set_egress({.wait = microseconds(300)});
  BOOST_TEST(s.out().size() == 1U);
  BOOST_TEST(s.acknowledgement_delay() == 307'000U);
}

BOOST_AUTO_TEST_CASE(a_slow_link_is_given_the_time_of_half_a_megabyte) {
  Congestion congestion(
      {.enabled = true, .selective_repeat = true, .path_mtu = 8192, .window_bytes = 1 << 20});
  const Duration fast = congestion.target();
  congestion.set_link(1'250'000'000);
  BOOST_TEST(congestion.target().ns == fast.ns);
  congestion.set_link(25'000'000);
  BOOST_TEST(congestion.target().ns == (fast - kTargetDelay).ns + std::int64_t{kTargetBytes} * 40);
  congestion.set_link(1);
  BOOST_TEST(congestion.target().ns == (fast - kTargetDelay + kMostLinkTime).ns);
}

namespace {

/// Returns the window after eight round trips. The path takes `least`, and each round trip also waits for
/// `queue` in a queue. `link` is the rate of the host's own link in bytes per second.
std::uint32_t opened_window(Duration least, Duration queue, std::uint64_t link = 0) {
  Congestion congestion(
      {.enabled = true, .selective_repeat = true, .path_mtu = 8192, .window_bytes = 64 << 20});
  congestion.set_link(link);
  RoundTrip path;
  Time now = Time{} + seconds(1);
  path.sample(least, least, true, now);
  for (int round = 0; round < 8; ++round) {
    now = now + least + queue;
    path.sample(least + queue, least + queue, true, now);
    const std::uint32_t half = congestion.window() / 2;
    for (int i = 0; i < 2; ++i) congestion.on_acknowledge(least + queue, path, half, true, now);
  }
  return congestion.window();
}

}  // namespace

BOOST_AUTO_TEST_CASE(on_a_path_of_some_length_a_window_opens_through_a_queue_shorter_than_the_target) {
  for (const int milliseconds_of_path : {2, 4, 20}) {
    const Duration least = milliseconds(milliseconds_of_path);
    BOOST_TEST(opened_window(least, kTargetDelay - microseconds(1)) > 16U << 20);
    BOOST_TEST(opened_window(least, kTargetDelay + kScalingRange) < 1U << 20);
  }
  BOOST_TEST(opened_window(milliseconds(1), kTargetDelay) < 1U << 20);
  // On this link, half a megabyte takes 4.2 ms. So a least round trip of 4 ms may contain a queue of other
  // flows.
  constexpr std::uint64_t kGigabit = 125'000'000;
  BOOST_TEST(opened_window(milliseconds(4), kTargetDelay, kGigabit) < 1U << 20);
  BOOST_TEST(opened_window(milliseconds(5), kTargetDelay, kGigabit) > 16U << 20);
}

/// Two hosts send to a third one over links of 134 Mb/s, with packets of 9000 bytes and a path of 1.9 ms. A
/// packet takes 0.5 ms on each link. The first message of a connection is small. An earlier version steered
/// to 3 ms, which is less than what two full packets take without a queue, so the window shrank to two
/// packets.
BOOST_AUTO_TEST_CASE(full_packets_on_a_slow_link_may_take_longer_than_a_small_first_message) {
  constexpr std::uint32_t kPacket = 8928;
  Congestion congestion(
      {.enabled = true, .selective_repeat = true, .path_mtu = kPacket, .window_bytes = 1 << 20});
  RoundTrip path;
  Time now = Time{} + seconds(1);
  path.sample(microseconds(1963), microseconds(1963), false, now);
  for (int round = 0; round < 200; ++round) {
    for (const Duration rtt : {microseconds(3450), microseconds(round % 20 == 0 ? 2950 : 3900)}) {
      now = now + milliseconds(2);
      path.sample(rtt, rtt, true, now);
      congestion.on_acknowledge(rtt, path, kPacket, true, now);
    }
  }
  BOOST_TEST(congestion.window() > 4 * kPacket);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
