#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/views_seeds.hpp"

using namespace rdmc;
using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(ten_thousand_faulty_worlds_agree_on_every_view_and_settle) {
  const std::uint64_t seeds = from_environment("RDMC_SEEDS", 10'000);
  const SeedsOutcome outcome = run_views_seeds(from_environment("RDMC_FIRST_SEED", 1), seeds, 50);
  BOOST_TEST(outcome.runs >= seeds);
  BOOST_TEST(outcome.differing_hashes == 0u);
  for (const auto& violation : outcome.violations) BOOST_ERROR(violation);
  for (const auto& [kind, struck] : outcome.faults)
    BOOST_TEST(struck > seeds / 50, kind << " struck only " << struck << " times");
  // The faults are meant to exercise these mechanisms, so each figure must be large enough.
  for (const char* figure : {"views", "removals", "deaths_noticed", "delivered", "suspicions", "conflicts",
                             "stores_lost", "handovers", "waits"})
    BOOST_TEST(outcome.figures.at(figure) > seeds / 50, figure << " is " << outcome.figures.at(figure));
}
