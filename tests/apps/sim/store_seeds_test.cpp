#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/store_seeds.hpp"

using namespace rdmc;
using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(in_two_thousand_faulty_worlds_one_order_explains_all_that_clients_are_told) {
  const std::uint64_t seeds = from_environment("RDMC_SEEDS", 2000);
  const SeedsOutcome outcome = run_store_seeds(from_environment("RDMC_FIRST_SEED", 1), seeds, 50);
  BOOST_TEST(outcome.runs >= seeds);
  BOOST_TEST(outcome.differing_hashes == 0u);
  for (const auto& violation : outcome.violations) BOOST_ERROR(violation);
  for (const auto& [kind, struck] : outcome.faults) {
    BOOST_TEST_MESSAGE(kind << " struck " << struck << " times");
    BOOST_TEST(struck > seeds / 50, kind << " struck only " << struck << " times");
  }
  // The faults are meant to exercise these mechanisms, so each figure must be large enough.
  for (const auto& [figure, value] : outcome.figures) {
    BOOST_TEST_MESSAGE(figure << ": " << value);
    BOOST_TEST(value > seeds / 50, figure << " is " << value);
  }
}
