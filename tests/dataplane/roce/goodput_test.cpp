// Tests how much loss, queues and a silent peer cost on a 1 Gb/s link, in virtual time.
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/roce/pair.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(goodput_test)
namespace {

constexpr RemoteKey kKey{1};
constexpr std::size_t kBlock = 1'000'000;

// End 0 writes blocks to end 1. At most 8 of them are posted at a time.
struct Transfer {
  Transfer(const ConnectionConfig& common, const Link& link)
      : from(kBlock), to(kBlock), configs(mirrored(common, 0xFFFFF0)), pair(configs[0], configs[1], link, 7) {
    pair.regions(1).add(kKey, 0, to);
  }
  void run(std::size_t count, Time until = Time{} + seconds(100)) {
    const bool done = pair.run(until, [&] {
      for (; posted < count && posted - pair.completions(0).size() < 8; ++posted) {
        BOOST_REQUIRE(pair.connection(0).post_send(
            {.work_id = posted, .opcode = SendOpcode::write, .bytes = from, .remote_key = kKey}));
      }
      return pair.completions(0).size() == count || pair.connection(0).failed();
    });
    BOOST_REQUIRE(done);
  }
  /// Sends `count` single packets, one after the other. Returns how many packets have been sent again since
  /// the beginning of the transfer.
  std::uint64_t exchange(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      BOOST_REQUIRE(pair.connection(0).post_send(
          {.opcode = SendOpcode::write, .bytes = std::span(from).first(100), .remote_key = kKey}));
      const std::size_t done = pair.completions(0).size() + 1;
      BOOST_REQUIRE(pair.run(Time{} + seconds(100), [&] { return pair.completions(0).size() == done; }));
      ++posted;
    }
    return pair.connection(0).counters().retransmitted;
  }
  double bits_per_second() {
    return static_cast<double>(kBlock * posted * 8) / (pair.now() - Time{}).seconds();
  }

  std::vector<std::byte> from, to;
  std::array<ConnectionConfig, 2> configs;
  Pair pair;
  std::size_t posted = 0;
};

double goodput(const ConnectionConfig& common, Link link, std::uint32_t lose) {
  link.faults.lose = lose;
  Transfer transfer(common, link);
  transfer.run(60);
  BOOST_REQUIRE(!transfer.pair.connection(0).failed());
  BOOST_TEST((transfer.pair.connection(0).counters().retransmitted > 0) == (lose > 0));
  return transfer.bits_per_second();
}

constexpr Link kGigabit{.bits_per_second = 1e9, .delay = microseconds(50), .queue_bytes = 2'500'000};

}  // namespace

BOOST_AUTO_TEST_CASE(a_link_without_loss_is_filled) {
  for (const bool selective : {false, true}) {
    for (const int delay : {20, 100, selective ? 500 : 200}) {
      Link link = kGigabit;
      link.delay = microseconds(delay);
      const ConnectionConfig config{
          .path_mtu = 4096, .selective_repeat = selective, .congestion_control = true};
      BOOST_TEST_CONTEXT("selective " << selective << ", " << delay << " us") {
        BOOST_TEST(goodput(config, link, 0) > 0.93e9);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_path_of_forty_milliseconds_is_filled) {
  Link link = kGigabit;
  link.delay = milliseconds(20);
  Transfer transfer({.path_mtu = 8192, .selective_repeat = true, .congestion_control = true}, link);
  transfer.run(250);  // With a window of 1 MB, only 0.2 Gb/s would be possible.
  BOOST_TEST(transfer.bits_per_second() > 0.8e9);
  // Packets are sent again only before a round trip is known.
  BOOST_TEST(transfer.pair.connection(0).counters().retransmitted < 5);
}

BOOST_AUTO_TEST_CASE(single_packets_on_a_long_path_are_sent_once_when_its_round_trip_is_known) {
  Link link = kGigabit;
  link.delay = milliseconds(20);
  Transfer transfer({.path_mtu = 8192, .selective_repeat = true, .congestion_control = true}, link);
  const std::uint64_t at_first = transfer.exchange(4);
  BOOST_TEST(at_first < 8u);
  BOOST_TEST(transfer.exchange(20) == at_first);
}

/// An earlier version never waited longer than the ack timeout for an answer. On a path that is longer, it
/// sent a packet again after each ack timeout, and a transfer took up to 2.3 times as long.
BOOST_AUTO_TEST_CASE(a_path_longer_than_the_ack_timeout_is_filled_and_each_packet_is_sent_once) {
  for (const int delay : {50, 60}) {
    Link link = kGigabit;
    link.delay = milliseconds(delay);
    Transfer transfer({.path_mtu = 8192, .selective_repeat = true, .congestion_control = true}, link);
    // Packets are sent again only before a round trip is known.
    const std::uint64_t at_first = transfer.exchange(8);
    BOOST_TEST(at_first < 16u);
    transfer.run(100);
    BOOST_TEST(transfer.pair.connection(0).counters().retransmitted == at_first);
    BOOST_TEST(transfer.bits_per_second() > 0.2e9 * 50 / delay);
  }
}

BOOST_AUTO_TEST_CASE(one_percent_loss_costs_selective_repeat_less_than_seven_percent) {
  for (const bool control : {false, true}) {
    for (const std::uint32_t mtu : {1024, 4096, 8192}) {
      const ConnectionConfig config{.path_mtu = mtu, .selective_repeat = true, .congestion_control = control};
      BOOST_TEST(goodput(config, kGigabit, 10'000) > 0.93 * goodput(config, kGigabit, 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(one_percent_loss_costs_go_back_n_less_than_forty_percent) {
  const ConnectionConfig config{.path_mtu = 4096, .congestion_control = true};
  BOOST_TEST(goodput(config, kGigabit, 10'000) > 0.60 * goodput(config, kGigabit, 0));
}

BOOST_AUTO_TEST_CASE(congestion_control_keeps_the_queue_short) {
  // Without congestion control, the whole window of 1 MB waits in the queue, for 8 ms. With congestion
  // control, a packet waits little longer than the target.
  Transfer transfer({.path_mtu = 8192, .selective_repeat = true, .congestion_control = true}, kGigabit);
  transfer.run(20);
  const Time posted = transfer.pair.now();
  transfer.run(21);
  const double alone = static_cast<double>(kBlock) * 8 / 1e9;
  BOOST_TEST((transfer.pair.now() - posted).seconds() < alone + 0.004);
}

/// Acknowledgements must pass a queue that contains the whole window of the other direction, 8 ms.
BOOST_AUTO_TEST_CASE(a_queue_on_the_way_back_is_not_for_the_way_there_to_make_shorter) {
  std::vector<std::byte> from(kBlock), there(kBlock), back(kBlock);
  auto configs = mirrored({.path_mtu = 8192, .selective_repeat = true, .congestion_control = true}, 0xFFFFF0);
  configs[1].congestion_control = false;
  Pair pair(configs[0], configs[1], kGigabit, 7);
  pair.regions(0).add(kKey, 0, back);
  pair.regions(1).add(kKey, 0, there);
  std::array<std::size_t, 2> posted{};
  constexpr std::size_t kWrites = 60;
  const bool done = pair.run(Time{} + seconds(10), [&] {
    for (const int end : {0, 1}) {
      for (; posted[end] - pair.completions(end).size() < 8; ++posted[end])
        BOOST_REQUIRE(pair.connection(end).post_send(
            {.work_id = posted[end], .opcode = SendOpcode::write, .bytes = from, .remote_key = kKey}));
    }
    return pair.completions(0).size() >= kWrites;
  });
  BOOST_REQUIRE(done);
  BOOST_TEST(double(kWrites * kBlock) * 8 / (pair.now() - Time{}).seconds() > 0.9e9);
}

/// A queue that is never empty must not count as a longer path after some time.
BOOST_AUTO_TEST_CASE(a_queue_stays_short_for_as_long_as_the_link_is_filled) {
  Link link = kGigabit;
  link.bits_per_second = 1e8;
  Transfer transfer({.path_mtu = 8192, .selective_repeat = true, .congestion_control = true}, link);
  const auto of_one_more = [&](std::size_t writes) {
    transfer.run(writes);
    const Time posted = transfer.pair.now();
    transfer.run(writes + 1);
    return (transfer.pair.now() - posted).seconds();
  };
  const double at_first = of_one_more(20);
  // These writes take 95 s, which is more than three times kLeastRoundTripPeriod.
  BOOST_TEST(of_one_more(1200) < at_first + 0.004);
}

BOOST_AUTO_TEST_CASE(a_shallow_queue_is_not_flooded) {
  Link link = kGigabit;
  link.queue_bytes = 64 << 10;
  for (const bool selective : {false, true}) {
    Transfer transfer({.path_mtu = 4096, .selective_repeat = selective, .congestion_control = true}, link);
    transfer.run(60);
    BOOST_TEST(transfer.bits_per_second() > (selective ? 0.9e9 : 0.5e9));
    const ConnectionCounters& counters = transfer.pair.connection(0).counters();
    BOOST_TEST(counters.retransmitted * 3 < counters.packets_sent);
  }
}

BOOST_AUTO_TEST_CASE(a_peer_stopped_for_300_ms_is_not_given_up_and_a_dead_one_is_in_600) {
  for (const bool selective : {false, true}) {
    Transfer transfer({.path_mtu = 4096, .selective_repeat = selective, .congestion_control = true},
                      kGigabit);
    transfer.run(5);
    transfer.pair.freeze(1);
    const std::size_t before = transfer.posted;
    BOOST_TEST(before == 5);
    BOOST_REQUIRE(transfer.pair.connection(0).post_send(
        {.opcode = SendOpcode::write, .bytes = transfer.from, .remote_key = kKey}));
    ++transfer.posted;
    transfer.pair.run_for(milliseconds(300));
    BOOST_TEST(!transfer.pair.connection(0).failed());
    transfer.pair.thaw(1);
    transfer.run(8);
    BOOST_TEST(transfer.pair.completions(0).size() == 8);

    transfer.pair.freeze(1);
    const Time death = transfer.pair.now();
    transfer.run(9);
    BOOST_TEST((transfer.pair.connection(0).cause() == FailureCause::retry_exceeded));
    BOOST_TEST((transfer.pair.now() - death).seconds() > 0.3);
    BOOST_TEST((transfer.pair.now() - death).seconds() < 0.6);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
