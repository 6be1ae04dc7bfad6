#include "apps/run/failure_plan.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "apps/run/run_state.hpp"

BOOST_AUTO_TEST_SUITE(failure_plan_test)

using namespace rdmc;
using namespace rdmc::run;
using replica::Layout;
using replica::ProcessId;

BOOST_AUTO_TEST_CASE(a_text_names_a_number_or_a_rate_and_a_seed) {
  BOOST_TEST((*parse_failures("20") == FailureSpec{.count = 20}));
  BOOST_TEST((*parse_failures("20:7") == FailureSpec{.count = 20, .seed = 7}));
  BOOST_TEST((*parse_failures("0.5/s") == FailureSpec{.rate = 0.5}));
  BOOST_TEST((*parse_failures("3/s:9") == FailureSpec{.rate = 3, .seed = 9}));
  for (const char* const text :
       {"", "0", "-1", "x", "5:", "5:x", ":5", "0/s", "/s", "1001/s", "nan/s", "1.5", "1/m"}) {
    const auto parsed = parse_failures(text);
    BOOST_TEST((!parsed && parsed.error().code == Errc::invalid_argument), text);
  }
}

BOOST_AUTO_TEST_CASE(failures_come_at_the_rate_and_end_after_the_number) {
  FailurePlan plan({.rate = 100, .count = 5000, .seed = 3});
  const std::vector<ProcessId> spare{ProcessId{1}, ProcessId{4}};
  double seconds = 0;
  int failures = 0, firsts = 0;
  while (const auto after = plan.next()) {
    BOOST_REQUIRE(after->ns >= 0);
    seconds += after->seconds();
    firsts += *plan.choose(spare) == ProcessId{1} ? 1 : 0;
    ++failures;
  }
  BOOST_TEST(failures == 5000);
  BOOST_TEST((seconds > 40 && seconds < 60));
  BOOST_TEST((firsts > 2000 && firsts < 3000));
  BOOST_TEST(!plan.choose(spare).has_value());
}

BOOST_AUTO_TEST_CASE(a_failure_that_finds_no_spare_replica_does_not_count) {
  FailurePlan plan({.count = 1});
  BOOST_TEST(!plan.choose({}).has_value());
  BOOST_TEST(plan.next().has_value());
}

BOOST_AUTO_TEST_CASE(injected_failures_never_lose_a_rank) {
  BOOST_TEST(rc::check([] {
    const auto degrees = *rc::gen::container<std::vector<std::uint32_t>>(3, rc::gen::inRange(1u, 4u));
    const Layout layout = *Layout::of(degrees);
    RunState state(layout);
    RC_ASSERT(state.spare().empty());  // The program has not started.
    for (std::uint32_t i = 0; i < layout.processes(); ++i)
      state.joined({.run = {}, .process = ProcessId{i}, .address = Address::ipv4(127, 0, 0, 1, 1)});
    FailurePlan plan({.seed = *rc::gen::arbitrary<std::uint64_t>()});
    std::vector<ProcessId> killed;
    while (const auto process = plan.choose(state.spare())) {
      state.inject_failure(*process);
      killed.push_back(*process);
      // A process exits sooner or later after it was killed.
      if (*rc::gen::arbitrary<bool>()) {
        state.exited(killed.front(), {true, kKillSignal});
        killed.erase(killed.begin());
      }
    }
    for (const ProcessId process : killed) state.exited(process, {true, kKillSignal});
    RC_ASSERT(state.injected() == layout.processes() - layout.ranks());
    RC_ASSERT(state.deaths() == state.injected());
    RC_ASSERT(state.alive() == layout.ranks());
    RC_ASSERT(state.exit_code() == 0);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
