// This program is linked with cores that have planted bugs. RDMC_PLANTED names the active one (see plant.py).
// The scenario must find the bug. Otherwise the scenario's checks prove nothing.
#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/store_seeds.hpp"

using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(a_planted_bug_is_found_within_two_thousand_seeds) {
  constexpr std::uint64_t kSeeds = 2000, kAtOnce = 10;
  SeedsOutcome outcome;
  for (std::uint64_t seed = 1; seed <= kSeeds && outcome.violations.empty(); seed += kAtOnce)
    outcome = run_store_seeds(seed, kAtOnce, 0);
  BOOST_TEST(!outcome.violations.empty());
  if (!outcome.violations.empty()) BOOST_TEST_MESSAGE("found: " << outcome.violations.front());
}
