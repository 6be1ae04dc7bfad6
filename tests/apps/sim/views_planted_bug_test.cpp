// This program is linked with one core that has a planted bug (see plant.py). The scenario must find the bug.
// Otherwise the scenario's checks prove nothing.
#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/views_seeds.hpp"

using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(a_planted_bug_is_found_within_two_hundred_seeds) {
  const SeedsOutcome outcome = run_views_seeds(1, 200, 0);
  BOOST_TEST(!outcome.violations.empty());
  if (!outcome.violations.empty()) BOOST_TEST_MESSAGE("found: " << outcome.violations.front());
}
