// Tests the block model: its guarantees for groups of any size, and how the pipeline scales.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/apps/sim/seeds.hpp"

BOOST_AUTO_TEST_SUITE(block_scenario_test)

using namespace rdmc;
using namespace rdmc::sim_app;

namespace {

constexpr std::uint64_t kMega = 1 << 20;

/// Links of 20 Gb/s, as in the paper's cluster. Latency, relay cost and jitter have their default values.
ScenarioOptions group_of(std::uint32_t members, std::uint64_t megabytes) {
  return {.model = Model::blocks,
          .members = members,
          .size_bytes = megabytes * kMega,
          .block_bytes = kMega,
          .window_bytes = 64 * kMega,
          .rate = 20'000'000'000,
          .blocks = {}};
}

void no_violation(const ScenarioResult& result) {
  BOOST_TEST(result.violations == std::vector<std::string>{}, boost::test_tools::per_element());
}

}  // namespace

// The second number of each pair is the time in the packet model for the same group, relative to the bound.
// It was measured with rdmc_sim --model packets --rate 10g --mtu 9000 --size 64M --block-size 256K --window
// 64M, and divided by 1.011, the share of the headers.
BOOST_AUTO_TEST_CASE(it_agrees_with_the_packets_within_two_percent) {
  for (const auto& [members, packets] :
       {std::pair{4U, 1.013}, {8U, 1.022}, {16U, 1.038}, {32U, 1.063}, {64U, 1.069}}) {
    ScenarioOptions options = group_of(members, 64);
    options.rate = 10'000'000'000;
    options.block_bytes = kMega / 4;
    options.blocks = {.latency = microseconds(10), .relay_cost = microseconds(1), .jitter = {}};
    const ScenarioResult result = run_bcast(options);
    no_violation(result);
    BOOST_TEST(std::abs(result.virtual_seconds / result.bound_seconds - packets) < 0.02,
               members << " members: " << result.virtual_seconds / result.bound_seconds);
  }
}

BOOST_AUTO_TEST_CASE(nobody_is_faster_than_the_bound) {
  for (std::uint32_t members = 2; members <= 66; members += all_or(1U, 4U)) {
    ScenarioOptions options = group_of(members, 40);
    options.blocks = {.latency = {}, .relay_cost = {}, .jitter = {}};
    const ScenarioResult result = run_bcast(options);
    no_violation(result);
    BOOST_TEST(result.virtual_seconds >= result.bound_seconds * (1 - 1e-9));
    BOOST_TEST(result.virtual_seconds < 1.4 * result.bound_seconds, members << " members");
  }
}

BOOST_AUTO_TEST_CASE(every_seed_delivers_everything_once_and_again_in_the_same_way) {
  const SeedsOutcome outcome = run_seeds(1, all_or(15, 5), 2, block_options_of);
  BOOST_TEST(outcome.differing_hashes == 0u);
  BOOST_TEST(outcome.violations == std::vector<std::string>{}, boost::test_tools::per_element());
  BOOST_TEST(outcome.figures.at("slow_links") > 3u);
}

BOOST_AUTO_TEST_CASE(another_seed_is_another_run) {
  ScenarioOptions options = group_of(8, 8);
  const ScenarioResult first = run_bcast(options);
  options.seed = 2;
  BOOST_TEST(run_bcast(options).trace_hash != first.trace_hash);
}

// docs/benchmarks.md has the times of longer messages.
BOOST_AUTO_TEST_CASE(four_thousand_members_get_everything_over_few_connections) {
  const ScenarioResult result = run_bcast(group_of(all_or(4096, 256), 32));
  no_violation(result);
  BOOST_TEST(result.virtual_seconds < 2.2 * result.bound_seconds,
             result.virtual_seconds << " s, bound " << result.bound_seconds);
  BOOST_TEST(result.figures.at("connections_most") <= 2u * 12 + 2);
}

BOOST_AUTO_TEST_CASE(with_blocks_that_suit_the_message_hundreds_are_within_five_percent) {
  for (const std::uint32_t members : {64U, 256U}) {
    ScenarioOptions options = group_of(members, 256);
    options.block_bytes = 192 << 10;
    const ScenarioResult result = run_bcast(options);
    no_violation(result);
    BOOST_TEST(result.virtual_seconds < 1.05 * result.bound_seconds,
               members << " members: " << result.virtual_seconds / result.bound_seconds);
  }
}

// docs/benchmarks.md has the result for 4096 members.
BOOST_AUTO_TEST_CASE(two_trees_lose_less_among_hundreds_than_the_pipeline) {
  ScenarioOptions options = group_of(256, 256);
  options.block_bytes = 192 << 10;
  const ScenarioResult pipeline = run_bcast(options);
  options.algorithm = relay::Algorithm::two_trees;
  const ScenarioResult trees = run_bcast(options);
  no_violation(trees);
  BOOST_TEST(trees.figures.at("connections_most") <= 4u);
  BOOST_TEST(trees.virtual_seconds < 1.025 * trees.bound_seconds,
             trees.virtual_seconds / trees.bound_seconds);
  BOOST_TEST(trees.virtual_seconds < 0.99 * pipeline.virtual_seconds);
}

BOOST_AUTO_TEST_CASE(the_circulant_graph_brings_a_file_to_hundreds_and_to_groups_with_and_without_pairs) {
  for (const std::uint32_t members : {2U, 3U, 33U, 64U, 300U}) {
    ScenarioOptions options = group_of(members, 64);
    options.block_bytes = 192 << 10;
    options.algorithm = relay::Algorithm::circulant;
    const ScenarioResult result = run_bcast(options);
    no_violation(result);
    BOOST_TEST(result.figures.at("connections_most") <= 2 * relay::depth_of(members));
    BOOST_TEST(result.virtual_seconds < 1.3 * result.bound_seconds,
               members << " members: " << result.virtual_seconds / result.bound_seconds);
  }
}

BOOST_AUTO_TEST_CASE(a_members_cost_grows_with_the_logarithm_of_the_group_and_not_with_the_message) {
  std::uint64_t ring = 0, state = 0;
  for (const std::uint64_t megabytes : {64, 512}) {
    const ScenarioResult result = run_bcast(group_of(256, megabytes));
    no_violation(result);
    if (ring == 0) {
      ring = result.figures.at("ring_bytes_most");
      state = result.figures.at("state_bytes_most");
    }
    BOOST_TEST(result.figures.at("ring_bytes_most") == ring);
    BOOST_TEST(result.figures.at("state_bytes_most") == state);
  }
  for (const std::uint32_t members : {2U, 3U, 100U, 255U, 1000U}) {
    const ScenarioResult result = run_bcast(group_of(members, 1));
    BOOST_TEST(result.figures.at("connections_most") <= 2u * std::bit_width(members - 1) + 2);
  }
}

// Source: the analysis in the later RDMC paper. Of the L steps between two uses of a link, one step takes
// twice as long. So L / (L + 1) of the rate remains, in this case 6 / 7.
BOOST_AUTO_TEST_CASE(one_link_at_half_its_rate_among_64_members_leaves_more_than_85_percent) {
  ScenarioOptions options = group_of(64, 256);
  options.block_bytes = kMega / 4;
  const double even = run_bcast(options).virtual_seconds;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    options.seed = seed;
    options.blocks.slow_links = 1;
    options.blocks.slow_rate = options.rate / 2;
    const ScenarioResult result = run_bcast(options);
    no_violation(result);
    BOOST_TEST(result.figures.at("slow_links") == 1u);
    BOOST_TEST(even / result.virtual_seconds >= 0.856,
               "seed " << seed << ": " << even / result.virtual_seconds);
    BOOST_TEST(even / result.virtual_seconds < 0.99, "seed " << seed << ": the link is not slow");
  }
}

BOOST_AUTO_TEST_CASE(two_senders_at_once_share_every_receivers_link) {
  ScenarioOptions options = group_of(16, 64);
  const double alone = run_bcast(options).virtual_seconds;
  options.blocks.senders = 2;
  const ScenarioResult both = run_bcast(options);
  no_violation(both);
  BOOST_TEST(both.figures.at("receivers_ok") == 30u);
  // Each host receives both messages, except the two roots. A root receives only the other root's message.
  BOOST_TEST(both.virtual_seconds > 1.7 * alone);
  BOOST_TEST(both.virtual_seconds < 2.3 * alone);
}

BOOST_AUTO_TEST_CASE(an_uplink_that_a_rack_shares_slows_the_group_down) {
  ScenarioOptions options = group_of(16, 64);
  options.racks = *relay::Racks::of(std::vector<std::uint32_t>(4, 4));
  options.uplink_rate = 4 * options.rate;
  const double wide = run_bcast(options).virtual_seconds;
  options.uplink_rate = 0;
  const ScenarioResult narrow = run_bcast(options);
  no_violation(narrow);
  BOOST_TEST(narrow.virtual_seconds > 1.2 * wide);
}

BOOST_AUTO_TEST_SUITE_END()
