// Runs many seeds of the scenario kv, without and with planted bugs.
#include <boost/test/unit_test.hpp>

#include "tests/apps/sim/kv_seeds.hpp"

BOOST_AUTO_TEST_SUITE(kv_scenario_test)

using namespace rdmc;
using namespace rdmc::sim_app;

namespace {

/// Runs seeds until the bug is found, at most this number.
constexpr std::uint64_t kSeedsToFind = 300, kAtOnce = 10;

void check_is_found(const KvPlanted& planted, const std::string& how) {
  std::string other = "none";
  for (std::uint64_t first = 1; first <= kSeedsToFind; first += kAtOnce)
    for (const std::string& violation : run_kv_seeds(first, kAtOnce, 0, planted).violations) {
      if (violation.find(how) != std::string::npos) {
        BOOST_TEST_MESSAGE(violation);
        return;
      }
      other = violation;
    }
  BOOST_ERROR("the bug was not found; another violation is: " << other);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_clients_see_is_linearizable_whatever_strikes) {
  const std::uint64_t seeds = from_environment("RDMC_SEEDS", 1000);
  const SeedsOutcome outcome = run_kv_seeds(from_environment("RDMC_FIRST_SEED", 1), seeds, 20);
  BOOST_TEST(outcome.runs >= seeds);
  BOOST_TEST(outcome.differing_hashes == 0u);
  for (const auto& violation : outcome.violations) BOOST_ERROR(violation);
  for (const auto& [kind, struck] : outcome.faults) {
    BOOST_TEST_MESSAGE(kind << " struck " << struck << " times");
    BOOST_TEST(struck > seeds / 5, kind << " struck only " << struck << " times");
  }
  // The faults are meant to exercise these mechanisms, so each figure must be large enough.
  for (const auto& [figure, value] : outcome.figures) {
    BOOST_TEST_MESSAGE(figure << ": " << value);
    if (figure == "unchecked")
      BOOST_TEST(value <= seeds / 20, value << " histories are not checked");
    else
      BOOST_TEST(value > seeds / 5, figure << " is " << value);
  }
}

BOOST_AUTO_TEST_CASE(a_run_is_a_function_of_its_seed) {
  KvOptions options{.seed = 7};
  options.strikes.fill(1);
  const ScenarioResult first = run_kv(options);
  BOOST_TEST(first.trace_hash == run_kv(options).trace_hash);
  options.seed = 8;
  BOOST_TEST(first.trace_hash != run_kv(options).trace_hash);
}

BOOST_AUTO_TEST_CASE(without_faults_no_request_gets_an_error) {
  for (std::uint64_t seed = 1; seed <= all_or(20U, 4U); ++seed) {
    const ScenarioResult result = run_kv({.seed = seed, .members = static_cast<std::uint32_t>(1 + seed % 5)});
    for (const auto& violation : result.violations) BOOST_ERROR("seed " << seed << ": " << violation);
    BOOST_TEST(result.figures.at("refused") + result.figures.at("uncertain") == 0u);
    BOOST_TEST(result.figures.at("operations") > 50u);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_before_its_event_is_stable_is_found) {
  check_is_found({.answers_before_stable = true}, "not linearizable");
}

BOOST_AUTO_TEST_CASE(a_read_at_any_server_is_found) {
  check_is_found({.reads_anywhere = true}, "not linearizable");
}

BOOST_AUTO_TEST_CASE(a_read_at_a_main_that_is_none_any_more_is_found) {
  check_is_found({.reads_without_lease = true}, "not linearizable");
}

BOOST_AUTO_TEST_CASE(an_event_that_is_executed_twice_is_found) {
  check_is_found({.applies_twice = true}, "not linearizable");
}

BOOST_AUTO_TEST_CASE(a_transferred_state_without_watched_keys_is_found) {
  check_is_found({.forgets_watches = true}, "");
}

BOOST_AUTO_TEST_CASE(a_key_that_expires_by_the_clock_of_one_server_is_found) {
  check_is_found({.expires_by_own_clock = true}, "");
}

BOOST_AUTO_TEST_SUITE_END()
