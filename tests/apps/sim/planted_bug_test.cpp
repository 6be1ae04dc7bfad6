// This program is linked with one core that has a planted bug (see plant.py). The scenario must find the bug.
// Otherwise the scenario's checks prove nothing. With the argument "blocks", the program runs the block
// model.
#include <boost/test/unit_test.hpp>
#include <string_view>

#include "tests/apps/sim/seeds.hpp"

using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(a_planted_bug_is_found_within_two_hundred_seeds) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  const bool blocks = suite.argc > 1 && std::string_view(suite.argv[1]) == "blocks";
  std::uint64_t seed = 1;
  std::vector<std::string> found;
  for (; seed <= 200 && found.empty(); ++seed)
    found = run_seeds(seed, 1, 1, blocks ? block_options_of : options_of).violations;
  BOOST_TEST(!found.empty());
  if (!found.empty()) BOOST_TEST_MESSAGE("found: " << found.front());
}
