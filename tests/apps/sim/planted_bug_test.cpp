// Linked with one core in which a bug was planted (see plant.py): the scenario must notice, or it proves
// nothing.
#define BOOST_TEST_MODULE planted_bug
#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/seeds.hpp"

using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(a_planted_bug_is_found_within_two_hundred_seeds) {
  std::uint64_t seed = 1;
  std::vector<std::string> found;
  for (; seed <= 200 && found.empty(); ++seed) found = run_seeds(seed, 1, 1).violations;
  BOOST_TEST(!found.empty());
  if (!found.empty()) BOOST_TEST_MESSAGE("found: " << found.front());
}
