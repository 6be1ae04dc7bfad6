// Compares the cost model with the plans. If only bytes cost time, the cost of a message must be the time of
// its steps. The model's busiest uplink must carry as many bytes as a walk over the plan counts.
#include "dataplane/relay/cost_model.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(cost_model_test)
namespace {

constexpr PathParameters kOnlyBytes{.bits_per_second = 8e9,
                                    .start_seconds = 0,
                                    .block_seconds = 0,
                                    .hop_seconds = 0,
                                    .drift = 1,
                                    .drift_of_pairs = 1,
                                    .drift_of_trees = 1};
constexpr PathParameters kOnlyBlocks = [] {
  PathParameters path = kOnlyBytes;
  path.bits_per_second = 1e30;
  path.block_seconds = 1;
  return path;
}();

GroupPlan some_plan(Algorithm algorithm) {
  const auto sizes = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 12)));
  const auto racks = Racks::of(sizes);
  return {algorithm, racks->members(), *racks};
}

BOOST_AUTO_TEST_CASE(bytes_and_blocks_are_those_of_the_plans_steps) {
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = some_plan(*rc::gen::elementOf(kAutoAlgorithms));
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 100);
    const MessageShape message{plan.members, plan.racks, blocks * 1000};
    const auto steps = static_cast<double>(plan.of(0).steps(blocks));
    RC_ASSERT(std::abs(cost_seconds(plan.algorithm, message, 1000, kOnlyBytes) - steps * 1e-6) < 1e-9);
    RC_ASSERT(std::abs(cost_seconds(plan.algorithm, message, 1000, kOnlyBlocks) - steps) < 1e-6);
  }));
}

BOOST_AUTO_TEST_CASE(the_circulant_graph_costs_its_steps_with_and_without_a_power_of_two) {
  for (const std::uint32_t members : {2U, 3U, 8U, 33U, 130U}) {
    for (const std::uint64_t blocks : {1U, 2U, 90U}) {
      const auto steps = static_cast<double>(Circulant(Rank{0}, members).steps(blocks));
      const MessageShape message{members, {}, blocks * 1000};
      BOOST_TEST(std::abs(cost_seconds(Algorithm::circulant, message, 1000, kOnlyBlocks) - steps) < 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_busiest_uplink_carries_what_the_plan_sends_across) {
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = some_plan(*rc::gen::elementOf(kAlgorithms));
    constexpr std::uint64_t kBlocks = 400;
    std::vector<double> in(plan.racks.all().size()), out(in.size());
    for (const Schedule& one : plan.all()) {
      const std::size_t to = plan.racks.index_of(value_of(one.rank()));
      for (const Rank source : one.sources()) {
        const std::size_t from = plan.racks.index_of(value_of(source));
        if (from == to) continue;
        for (auto step = one.next_receive_from(source, 0, kBlocks); step;
             step = one.next_receive_from(source, *step + 1, kBlocks))
          ++in[to], ++out[from];
      }
    }
    const double most = std::max(std::ranges::max(in), std::ranges::max(out)) / kBlocks;
    const double model = uplink_messages(plan.algorithm, {plan.members, plan.racks, 0});
    // The model ignores that the first and the last steps differ from the steps in the middle.
    RC_ASSERT(std::abs(model - most) <= 0.05 * most + 0.05);
  }));
}

BOOST_AUTO_TEST_CASE(a_host_pipeline_takes_the_links_as_long_as_a_pipeline_of_the_hosts) {
  const MessageShape hosts{14, *Racks::of(std::vector<std::uint32_t>{1, 4, 4, 5}), 1 << 20},
      heads{4, {}, 1 << 20};
  BOOST_TEST(cost_seconds(Algorithm::host_pipeline, hosts, 1000, kOnlyBytes) ==
             cost_seconds(Algorithm::binomial_pipeline, heads, 1000, kOnlyBytes));
  const auto way = critical_path(Algorithm::host_pipeline, hosts, 1000, {});
  BOOST_TEST(way.hops == critical_path(Algorithm::binomial_pipeline, heads, 1000, {}).hops + 4);
}

BOOST_AUTO_TEST_CASE(slow_uplinks_make_a_plan_of_racks_the_cheapest_and_going_in_step_the_pipeline) {
  const std::vector<std::uint32_t> block_sizes{16 << 10, 64 << 10, 256 << 10, 1 << 20};
  const MessageShape racks{16, *Racks::of(std::vector<std::uint32_t>{4, 4, 4, 4}), 64 << 20};
  PathParameters path{.drift = 1, .drift_of_pairs = 1, .drift_of_trees = 1};
  BOOST_CHECK(cheapest(racks, path, kAutoAlgorithms, block_sizes).algorithm == Algorithm::binomial_pipeline);
  path.uplink_bits_per_second = path.bits_per_second;
  BOOST_CHECK(cheapest(racks, path, kAutoAlgorithms, block_sizes).algorithm == Algorithm::site_trees);
  path.uplink_bits_per_second = 0;
  for (const std::uint32_t members : {2U, 3U, 16U, 100U})
    BOOST_CHECK(cheapest({members, {}, 64 << 20}, path, kAutoAlgorithms, block_sizes).algorithm ==
                Algorithm::binomial_pipeline);
}

BOOST_AUTO_TEST_CASE(
    a_root_that_repeats_a_message_needs_as_long_as_its_link_or_the_uplink_whichever_is_slower) {
  const MessageShape message{16, *Racks::of(std::vector<std::uint32_t>{8, 8}), 1'000'000};
  PathParameters path = kOnlyBytes;
  for (const auto& [slower, seconds] : {std::pair{1.0, 15e-3}, {4.0, 32e-3}}) {
    path.uplink_bits_per_second = path.bits_per_second / slower;
    BOOST_TEST(std::abs(cost_seconds(Algorithm::sequential, message, 1000, path) - seconds) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(the_cheapest_block_grows_with_the_message_and_with_what_a_block_costs) {
  std::vector<std::uint32_t> block_sizes;
  for (std::uint32_t size = 4096; size <= 4 << 20; size *= 2) block_sizes.push_back(size);
  const auto best = [&](std::uint64_t bytes, double block_seconds) {
    return cheapest({16, {}, bytes}, {.block_seconds = block_seconds}, kAutoAlgorithms, block_sizes)
        .block_bytes;
  };
  BOOST_TEST(best(1 << 20, 1e-5) < best(64 << 20, 1e-5));
  BOOST_TEST(best(64 << 20, 1e-5) < best(64 << 20, 1e-3));
}

/// Returns the choice of a file's sender. The sender knows the rate of its links and the time of a hop.
Choice choice_for(std::uint32_t members, std::uint64_t bytes, double bits_per_second, double hop_seconds) {
  PathParameters path = kUnmeasured;
  path.bits_per_second = bits_per_second;
  path.hop_seconds = hop_seconds;
  return choose({.members = members, .bytes = bytes, .is_file = true}, path, {});
}

BOOST_AUTO_TEST_CASE(a_short_file_goes_along_the_circulant_graph_and_a_group_message_never_does) {
  const Choice file = choice_for(12, 64 << 10, 1e9, 10e-6);
  BOOST_CHECK(file.algorithm == Algorithm::circulant);
  BOOST_TEST(file.block_bytes == kLeastAutoBlock);
  const MessageShape message{.members = 12, .bytes = 64 << 10};
  BOOST_CHECK(choose(message, kUnmeasured, {}).algorithm != Algorithm::circulant);
}

BOOST_AUTO_TEST_CASE(a_block_is_hardly_larger_than_a_message_that_it_holds) {
  for (const std::uint64_t bytes : {1U, 1000U, 16U << 10, 100U << 10})
    for (const double hop_seconds : {10e-6, 20e-3})
      BOOST_TEST(choice_for(3, bytes, 10e9, hop_seconds).block_bytes <
                 2 * std::max<std::uint64_t>(bytes, kLeastAutoBlock));
}

BOOST_AUTO_TEST_CASE(blocks_grow_with_the_latency_until_those_in_flight_fill_the_path) {
  for (const double hop_seconds : {10e-6, 100e-6, 1e-3, 5e-3}) {
    const Choice choice = choice_for(16, 16 << 20, 1e9, hop_seconds);
    const double in_flight = kUnmeasured.writes_in_flight * choice.block_bytes;
    BOOST_TEST(in_flight * 8 / 1e9 >= 2 * hop_seconds);
  }
}

/// Larger blocks would wait at each hop until the congestion window of a new connection has grown.
BOOST_AUTO_TEST_CASE(on_a_long_path_blocks_are_no_larger_than_new_windows) {
  for (const std::uint32_t members : {5U, 9U, 33U})
    for (const double hop_seconds : {3e-3, 10e-3})
      BOOST_TEST(choice_for(members, 32 << 20, 10e9, hop_seconds).block_bytes <= 128U << 10);
}

BOOST_AUTO_TEST_CASE(a_message_of_one_block_goes_to_all_members_at_once_where_hops_are_long) {
  BOOST_CHECK(choice_for(8, 64 << 10, 10e9, 20e-3).algorithm == Algorithm::sequential);
  BOOST_CHECK(choice_for(6, 81 << 10, 11e9, 0.66e-3).algorithm == Algorithm::sequential);
  BOOST_CHECK(choice_for(8, 64 << 10, 1e9, 10e-6).algorithm != Algorithm::sequential);
}

BOOST_AUTO_TEST_CASE(two_trees_cost_the_same_in_one_site_under_either_name) {
  const PathParameters path{.grant_hops = 2};
  for (const std::uint32_t members : {2U, 7U, 100U}) {
    const MessageShape message{.members = members, .bytes = 64 << 20};
    BOOST_TEST(cost_seconds(Algorithm::site_trees, message, 64 << 10, path) ==
               cost_seconds(Algorithm::two_trees, message, 64 << 10, path));
  }
}

BOOST_AUTO_TEST_CASE(uplinks_as_fast_as_links_carry_a_large_file_once) {
  PathParameters path = kUnmeasured;
  path.uplink_bits_per_second = path.bits_per_second;
  for (const auto& sizes : {std::vector<std::uint32_t>{8, 8}, {7, 9}, {4, 4, 4, 4}, {1, 15}}) {
    const Racks racks = *Racks::of(sizes);
    const Choice choice =
        choose({.members = 16, .racks = racks, .bytes = 64 << 20, .is_file = true}, path, {});
    BOOST_TEST(uplink_messages(choice.algorithm, {.members = 16, .racks = racks, .bytes = 64 << 20}) < 1.01);
  }
}

BOOST_AUTO_TEST_CASE(a_core_that_is_slower_than_the_link_gets_larger_blocks) {
  PathParameters path{.bits_per_second = 20e9, .block_seconds = 0, .core_seconds = 55e-6};
  const MessageShape message{.members = 4096, .bytes = 256 << 20, .is_file = true};
  const std::uint32_t block_bytes = choose(message, path, {}).block_bytes;
  BOOST_TEST(block_bytes * 8 / path.bits_per_second > path.core_seconds);
  path.core_seconds = 0;
  BOOST_TEST(choose(message, path, {}).block_bytes < block_bytes);
}

BOOST_AUTO_TEST_CASE(an_empty_message_and_a_group_of_one_cost_what_they_must) {
  for (const Algorithm algorithm : kAlgorithms) {
    BOOST_TEST(cost_seconds(algorithm, {.members = 1, .bytes = 1 << 20}, 4096, {}) == 0.0);
    BOOST_TEST(cost_seconds(algorithm, {.members = 2, .bytes = 0}, 4096, {}) > 0.0);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
