#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/seeds.hpp"

BOOST_AUTO_TEST_SUITE(bcast_seeds_test)

using namespace rdmc;
using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(thousands_of_faulty_worlds_deliver_and_repeat_exactly) {
  const std::uint64_t seeds = from_environment("RDMC_SEEDS", 2000);
  const SeedsOutcome outcome = run_seeds(from_environment("RDMC_FIRST_SEED", 1), seeds, 2);
  BOOST_TEST(outcome.runs == 2 * seeds);
  BOOST_TEST(outcome.differing_hashes == 0u);
  for (const auto& violation : outcome.violations) BOOST_ERROR(violation);
  for (const auto& [kind, struck] : outcome.faults)
    BOOST_TEST_MESSAGE(kind << " struck " << struck << " times");
  for (const auto& [name, value] : outcome.figures) BOOST_TEST_MESSAGE(name << ' ' << value);
  for (const char* kind : {"loss", "duplicate", "reorder", "corrupt", "delay", "kill", "root_kill",
                           "root_stop", "pause", "slow_disk", "full_disk"}) {
    BOOST_TEST(outcome.faults.at(kind) > 0u, kind << " never struck");
  }
  // The faults are meant to exercise these mechanisms, so none of the figures may be zero.
  for (const char* figure : {"retransmitted", "timeouts", "duplicates", "out_of_order", "icrc_errors",
                             "packets_repaired", "orphaned", "led", "rescues", "losses"}) {
    BOOST_TEST(outcome.figures.at(figure) > 0u, figure << " is zero");
  }
  // One run in two hundred has a straggler.
  if (seeds >= 2000) BOOST_TEST(outcome.figures.at("stragglers") > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
