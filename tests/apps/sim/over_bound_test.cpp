// Compares the time of a message with the bound, k - 1 + ceil(log2 n) blocks at the links' rate. The packet
// model runs the RC core. The algorithm and the block size are chosen automatically. The cases are a sample
// of the grid in docs/benchmarks.md. The time is virtual, so the limits are valid on any machine.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "apps/sim/auto_choice.hpp"
#include "apps/sim/measures.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(over_bound_test)

using namespace rdmc;
using namespace rdmc::sim_app;

namespace {

constexpr std::uint64_t kMega = 1'000'000;
constexpr std::uint64_t kGiga = 1'000'000'000;

ScenarioOptions file_of_64_mib(std::uint32_t members, std::uint64_t rate) {
  return {.members = members,
          .size_bytes = 64 << 20,
          .block_bytes = 128 << 10,
          .window_bytes = 32 << 20,
          .rate = rate,
          .mtu = 9000};
}

/// A short file in blocks of 16 KB along the circulant graph.
ScenarioOptions short_file(std::uint32_t members, std::uint64_t bytes, std::uint64_t rate,
                           Duration link_delay) {
  ScenarioOptions options{.members = members,
                          .size_bytes = bytes,
                          .block_bytes = 16 << 10,
                          .window_bytes = 32 << 20,
                          .rate = rate,
                          .mtu = 9000,
                          .link_delay = link_delay};
  options.algorithm = relay::Algorithm::circulant;
  return options;
}

/// The bound for blocks of 256 KB, or for the chosen block size if it is smaller.
double bound(ScenarioOptions options) {
  options.block_bytes = std::min<std::uint32_t>(options.block_bytes, 256 << 10);
  return bound_seconds(options);
}

void check(const ScenarioOptions& options, double most) {
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  const double ratio = result.virtual_seconds / bound(options);
  BOOST_TEST(ratio >= 1);
  BOOST_TEST(ratio <= most, options.members << " members, " << options.rate / kMega << " Mb/s, "
                                            << relay::to_string(options.algorithm) << " in blocks of "
                                            << options.block_bytes << ": " << ratio);
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_nothing_chosen_a_file_takes_hardly_longer_than_the_bound) {
  struct Cell {
    std::uint32_t members;
    std::uint64_t rate;
    double most;
  };
  for (const auto& [members, rate, most] : {Cell{3, 1 * kGiga, 1.04},
                                            {12, 1 * kGiga, 1.04},
                                            {16, 1 * kGiga, 1.04},
                                            {5, 10 * kGiga, 1.04},
                                            {7, 10 * kGiga, 1.04},
                                            {24, 10 * kGiga, 1.04},
                                            {13, 25 * kGiga, 1.04},
                                            {12, 100 * kMega, 1.06},
                                            {9, 400 * kMega, 1.06}}) {
    if (is_sampled() && members > 5) continue;
    ScenarioOptions options = file_of_64_mib(members, rate);
    choose(options, {});
    check(options, most);
  }
}

/// Each member gets half of the blocks from each of two members, over links on which a full packet takes
/// longer than the path of a small one. In an earlier version one of the two windows stayed at two packets,
/// and its member took 1.9 times the bound.
BOOST_AUTO_TEST_CASE(no_window_starves_where_a_full_packet_takes_longer_than_a_small_one) {
  for (const std::uint32_t members : {7U, 15U}) {
    ScenarioOptions options = file_of_64_mib(members, 134 * kMega);
    options.size_bytes = 8 << 20;
    options.link_delay = microseconds(478);
    options.algorithm = relay::Algorithm::two_trees;
    options.block_bytes = 16 << 10;
    check(options, 1.08);
  }
}

/// A short file in small blocks: the order in which blocks leave a host is the order of the schedule, even
/// where a train could carry several of them. An earlier version took 1.84 times the bound.
BOOST_AUTO_TEST_CASE(small_blocks_leave_in_the_order_of_the_schedule) {
  check(short_file(29, 254'976, 223 * kMega, microseconds(15)), 1.5);
}

/// On a slow link, packets wait in their host, and some are sent again for nothing. When their work request
/// completes, they must leave the queue, but no other packet may. An earlier version then lost the packets
/// behind them, and took 4.4 times the bound.
BOOST_AUTO_TEST_CASE(on_a_slow_link_no_packet_is_lost_because_an_earlier_one_is_not_needed_any_more) {
  check(short_file(12, 174'369, 101 * kMega, microseconds(82)), 2.2);
}

/// The cases are short files, and links with a long delay. An earlier version of the automatic choice took
/// 1.2 to 2.4 times as long as the best schedule.
BOOST_AUTO_TEST_CASE(with_nothing_chosen_short_files_and_long_hops_take_hardly_longer_than_by_the_best_plan) {
  struct Cell {
    std::uint32_t members;
    std::uint64_t bytes, rate;
    Duration link_delay;
    relay::Algorithm best;
    std::uint32_t block_bytes;
  };
  using enum relay::Algorithm;
  for (const auto& [members, bytes, rate, link_delay, best, block_bytes] :
       {Cell{42, 90'000, 3'410 * kMega, nanoseconds(5'650), circulant, 16 << 10},
        {11, 584'000, 730 * kMega, nanoseconds(3'400), circulant, 16 << 10},
        {8, 124'000, 11'700 * kMega, microseconds(9'400), sequential, 128 << 10},
        {3, 95'000, 7'960 * kMega, microseconds(810), sequential, 128 << 10},
        {17, 3'070'000, 5'780 * kMega, microseconds(2'355), circulant, 64 << 10},
        {15, 10'600'000, 272 * kMega, microseconds(4'230), circulant, 64 << 10}}) {
    if (is_sampled() && members > 11) continue;
    ScenarioOptions options{.members = members,
                            .size_bytes = bytes,
                            .window_bytes = 32 << 20,
                            .rate = rate,
                            .mtu = 9000,
                            .link_delay = link_delay};
    choose(options, {});
    const double chosen = run_bcast(options).virtual_seconds;
    options.algorithm = best;
    options.block_bytes = block_bytes;
    const double least = run_bcast(options).virtual_seconds;
    BOOST_TEST(chosen <= 1.03 * least, members << " members, " << bytes << " bytes: " << chosen << " s, by "
                                               << relay::to_string(best) << " " << least << " s");
  }
}

/// A core needs 50 us for each block. If blocks had 128 KB, the core would limit the rate, and not the link
/// of 20 Gb/s.
BOOST_AUTO_TEST_CASE(a_thousand_members_get_blocks_that_their_cores_keep_up_with) {
  if (is_sampled()) return;
  ScenarioOptions options{.model = Model::blocks,
                          .members = 1000,
                          .size_bytes = 256 << 20,
                          .window_bytes = 32 << 20,
                          .rate = 20 * kGiga};
  choose(options, {});
  check(options, 1.03);
}

/// A member sends its acknowledgements and its own blocks over the same link. The queue that forms on that
/// link must not count as congestion.
BOOST_AUTO_TEST_CASE(a_relay_that_sends_what_it_receives_fills_both_ways_of_a_slow_link) {
  for (const std::uint64_t rate : {100 * kMega, 400 * kMega, 1 * kGiga}) {
    if (is_sampled() && rate != kGiga) continue;
    ScenarioOptions options = file_of_64_mib(3, rate);
    options.algorithm = relay::Algorithm::chain;
    check(options, 1.025);
  }
}

/// An earlier version took 1.54 times the bound, because more bytes than those of one message crossed the
/// uplink.
BOOST_AUTO_TEST_CASE(with_nothing_chosen_sites_behind_one_uplink_take_hardly_longer_than_the_bound) {
  for (const std::vector<std::uint32_t>& sites :
       std::vector<std::vector<std::uint32_t>>{{8, 8}, {7, 9}, {4, 4, 4, 4}}) {
    if (is_sampled() && sites[0] != 8) break;
    for (const std::uint64_t rate : {1 * kGiga, 10 * kGiga}) {
      ScenarioOptions options = file_of_64_mib(16, rate);
      options.racks = *relay::Racks::of(sites);
      choose(options, {});
      check(options, 1.05);
    }
  }
}

/// The slow host is the last site. Only the members that send to it wait for it.
BOOST_AUTO_TEST_CASE(a_slow_host_in_a_site_of_its_own_costs_the_others_no_more_than_a_tenth) {
  for (const std::uint64_t slower : {2U, 10U}) {
    if (is_sampled() && slower > 2) break;
    ScenarioOptions options = file_of_64_mib(16, 10 * kGiga);
    options.window_bytes = options.size_bytes;
    options.racks = *relay::Racks::of(std::vector<std::uint32_t>{15, 1});
    options.slow_hosts = {{15, options.rate / slower}};
    options.algorithm = relay::Algorithm::site_trees;
    const ScenarioResult result = run_bcast(options);
    BOOST_TEST(result.violations.empty());
    const auto& delivered = result.delivered_seconds;
    BOOST_TEST(*std::max_element(delivered.begin(), delivered.end() - 1) <= 1.1 * bound(options));
    BOOST_TEST(delivered.back() <= 1.1 * static_cast<double>(slower) * bound(options));
  }
}

/// The straggler is found while the file is sent. After this, the others continue at their own speed, and the
/// straggler gets as many blocks as its link can carry.
BOOST_AUTO_TEST_CASE(a_slow_host_that_nobody_named_becomes_a_straggler) {
  if (is_sampled()) return;
  ScenarioOptions options = file_of_64_mib(12, 100 * kMega);
  options.slow_hosts = {{5, options.rate / 2}};
  choose(options, {});
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  BOOST_TEST(result.figures.at("stragglers") == 1u);
  auto others = result.delivered_seconds;
  others.erase(others.begin() + 5);
  BOOST_TEST(*std::ranges::max_element(others) <= 1.13 * bound(options));
  BOOST_TEST(result.delivered_seconds[5] <= 2.2 * bound(options));
}

/// The members behind the slow uplink lag behind the members in the root's rack. An earlier version made one
/// of them a straggler, and the whole group then waited for a further epoch.
BOOST_AUTO_TEST_CASE(nobody_behind_a_slow_uplink_is_a_straggler) {
  if (is_sampled()) return;
  ScenarioOptions options = file_of_64_mib(6, 372 * kMega);
  options.racks = *relay::Racks::of(std::vector<std::uint32_t>{2, 2, 2});
  options.uplink_rate = options.rate / 2;
  options.link_delay = milliseconds(3);
  choose(options, {});
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  BOOST_TEST(result.figures.at("stragglers") == 0u);
  BOOST_TEST(result.virtual_seconds <= 1.2 * 2 * bound(options));
}

/// The far host is treated as a straggler from the beginning. In an earlier version it relayed blocks and
/// delayed all members that got blocks through it. It also had few writes in flight, and so delayed the
/// members that sent to it. That version took 2.2 times the bound.
BOOST_AUTO_TEST_CASE(a_far_host_holds_up_nobody) {
  if (is_sampled()) return;
  ScenarioOptions options = file_of_64_mib(16, 200 * kMega);
  options.far_hosts = {{5, milliseconds(20)}};
  choose(options, {});
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  BOOST_TEST(result.figures.at("stragglers") == 1u);
  BOOST_TEST(result.figures.at("epochs") <= 2u);
  auto others = result.delivered_seconds;
  others.erase(others.begin() + 5);
  BOOST_TEST(*std::ranges::max_element(others) <= 1.06 * bound(options));
  BOOST_TEST(result.delivered_seconds[5] <= 1.25 * bound(options));
}

/// Hosts on several continents. An earlier version never waited longer than 67 ms for an answer, so it sent
/// packets again before their answers could arrive. It also took a member for a straggler whose ring was full
/// for two round trips. It took 3.9 s.
BOOST_AUTO_TEST_CASE(a_round_trip_longer_than_the_ack_timeout_makes_nobody_a_straggler) {
  ScenarioOptions options{.members = 8,
                          .size_bytes = 16 << 20,
                          .window_bytes = 32 << 20,
                          .rate = 400 * kMega,
                          .mtu = 9000,
                          .link_delay = milliseconds(40)};
  choose(options, {});
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  BOOST_TEST(result.figures.at("stragglers") == 0u);
  BOOST_TEST(result.virtual_seconds < 2);
}

/// Three racks behind uplinks with half of a link's rate, and a plan that does not know the racks. Many
/// connections share an uplink, so each of them loses most of its packets for a long time. An earlier version
/// expelled one or two members with blocks of 512 KB, because a data link was silent for half a second.
BOOST_AUTO_TEST_CASE(overloaded_uplinks_cost_no_member) {
  const std::uint64_t seeds = is_sampled() ? 1 : 3;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const std::uint32_t block_bytes : {32U << 10, 512U << 10}) {
      ScenarioOptions options{.seed = seed,
                              .members = 52,
                              .size_bytes = 2'834'484,
                              .block_bytes = block_bytes,
                              .window_bytes = 32 << 20,
                              .rate = 174 * kMega,
                              .mtu = 9000};
      options.algorithm = relay::Algorithm::circulant;
      options.racks = *relay::Racks::of(std::vector<std::uint32_t>{18, 17, 17});
      options.uplink_rate = options.rate / 2;
      const ScenarioResult result = run_bcast(options);
      BOOST_TEST_CONTEXT("seed " << seed << ", blocks of " << block_bytes) {
        BOOST_TEST(result.violations.empty());
        BOOST_TEST(result.figures.at("receivers_ok") == 51u);
        // A third of what the members get comes from their own rack, and the rest through the uplink.
        const double uplink_seconds = 17 * 2.834484e6 * 8 * 2 / 3 / static_cast<double>(options.uplink_rate);
        BOOST_TEST(result.virtual_seconds < 1.8 * uplink_seconds);
      }
    }
  }
}

/// A queue on the receive side of a member must not slow down what the member sends. An earlier version took
/// 1.14 times the bound: congestion control used only round-trip times, and some senders starved after some
/// seconds.
BOOST_AUTO_TEST_CASE(a_long_file_takes_hardly_longer_than_the_bound) {
  if (is_sampled()) return;
  ScenarioOptions options = file_of_64_mib(16, 200 * kMega);
  options.size_bytes = 256 << 20;
  choose(options, {});
  check(options, 1.04);
}

BOOST_AUTO_TEST_CASE(one_packet_lost_in_a_hundred_costs_a_tenth_at_most) {
  for (const std::uint32_t members : {3U, 8U, 12U}) {
    if (is_sampled() && members > 3) break;
    ScenarioOptions options = file_of_64_mib(members, kGiga);
    choose(options, {});
    options.rates.loss = 10'000;
    check(options, 1.1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
