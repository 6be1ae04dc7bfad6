// Compares the cost model with the simulator. Checks the predicted times, and how much slower the chosen plan
// is than the best plan.
#include "apps/sim/auto_choice.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(auto_choice_test)

using namespace rdmc;
using namespace rdmc::sim_app;

namespace {

constexpr std::uint32_t kSizes[] = {16 << 10, 64 << 10, 256 << 10};

ScenarioOptions shape(std::uint32_t members, std::uint64_t bytes,
                      const std::vector<std::uint32_t>& racks = {}, std::uint64_t uplink_rate = 0) {
  return {.members = members,
          .size_bytes = bytes,
          .racks = racks.empty() ? relay::Racks{} : *relay::Racks::of(racks),
          .uplink_rate = uplink_rate,
          .window_bytes = 64 << 20,
          .rate = 10'000'000'000,
          .mtu = 9000};
}

double seconds_of(ScenarioOptions options, relay::Algorithm algorithm, std::uint32_t block_bytes) {
  options.algorithm = algorithm;
  options.block_bytes = block_bytes;
  const ScenarioResult result = run_bcast(options);
  BOOST_REQUIRE(result.violations.empty());
  return result.virtual_seconds;
}

/// The predicted and the simulated time of one cell of the grid.
struct Cell {
  double model, simulated;
};

Cell cell_of(const ScenarioOptions& options, const relay::PathParameters& path, relay::Algorithm algorithm,
             std::uint32_t block_bytes) {
  return {
      relay::cost_seconds(algorithm, {options.members, options.racks, options.size_bytes}, block_bytes, path),
      seconds_of(options, algorithm, block_bytes)};
}

/// Checks that every cell is predicted with a relative error of less than `tolerance`. Also checks that the
/// automatically chosen plan is slower than the best cell by less than the fraction `regret`.
void check_grid(const ScenarioOptions& options, const std::vector<relay::Algorithm>& algorithms,
                double tolerance, double regret) {
  const relay::PathParameters path = known_paths(options);
  double best = INFINITY;
  for (const relay::Algorithm algorithm : algorithms) {
    for (const std::uint32_t block_bytes : kSizes) {
      const Cell cell = cell_of(options, path, algorithm, block_bytes);
      BOOST_TEST(std::abs(cell.model / cell.simulated - 1) < tolerance,
                 options.members << " members, " << options.size_bytes << " bytes, "
                                 << relay::to_string(algorithm) << ", blocks of " << block_bytes << ": model "
                                 << cell.model << " s, simulator " << cell.simulated << " s");
      best = std::min(best, cell.simulated);
    }
  }
  ScenarioOptions chosen = options;
  choose(chosen, {});
  const double taken = seconds_of(chosen, chosen.algorithm, chosen.block_bytes);
  BOOST_TEST(taken < (1 + regret) * best,
             options.members << " members, " << options.size_bytes << " bytes: auto takes "
                             << relay::to_string(chosen.algorithm) << " in blocks of " << chosen.block_bytes
                             << ", " << taken << " s, the best fixed choice " << best << " s");
}

}  // namespace

BOOST_AUTO_TEST_CASE(auto_is_hardly_slower_than_the_best_fixed_choice) {
  using enum relay::Algorithm;
  for (const std::uint32_t members : {3U, 4U, 8U, 13U, 16U}) {
    if (is_sampled() && members > 4) break;
    for (const std::uint64_t bytes : {1ULL << 20, 8ULL << 20})
      check_grid(shape(members, bytes), {binomial_pipeline, chain}, 0.3, 0.05);
  }
  check_grid(shape(4, 1 << 20), {binomial_tree, sequential}, 0.3, 0.05);
}

BOOST_AUTO_TEST_CASE(behind_slow_uplinks_auto_takes_the_hybrid_or_what_is_as_fast) {
  using enum relay::Algorithm;
  check_grid(shape(16, 8 << 20, {4, 4, 4, 4}, 10'000'000'000), {hybrid, chain}, 0.3, 0.05);
}

BOOST_AUTO_TEST_SUITE_END()
