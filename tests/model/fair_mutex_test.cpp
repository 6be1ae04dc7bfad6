#include "lib/socket/fair_mutex.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "tests/model/machine.hpp"

BOOST_AUTO_TEST_SUITE(fair_mutex_test)

using namespace rdmc;
using model::Machine;

namespace {

struct Result {
  model::Outcome outcome;
  std::size_t overlaps = 0;  ///< The runs in which two threads had the mutex at the same time.
  std::size_t lost = 0;      ///< The runs in which an increment under the mutex was lost.
};

Result explore(std::size_t threads, std::size_t rounds, const model::Options& options) {
  struct State {
    sockets::FairMutex mutex;
    Atomic<std::uint32_t> count = 0;
    int inside = 0;
    bool overlapped = false;
  };
  std::unique_ptr<State> state;
  Result result;
  result.outcome = Machine::explore(
      options,
      [&] {
        state = std::make_unique<State>();
        return std::vector<Machine::Program>(threads, [&state, rounds] {
          for (std::size_t round = 0; round < rounds; ++round) {
            const std::unique_lock lock(state->mutex);
            state->overlapped = ++state->inside != 1 || state->overlapped;
            // Only the mutex makes this increment atomic.
            const std::uint32_t before = state->count.load();
            state->count.store(before + 1);
            --state->inside;
          }
        });
      },
      [&] {
        result.overlaps += state->overlapped ? 1 : 0;
        result.lost += state->count.load() == threads * rounds ? 0 : 1;
      });
  return result;
}

void check(const Result& result) {
  BOOST_TEST(result.outcome.runs > 1000u);
  BOOST_TEST(result.outcome.stuck == 0u);
  BOOST_TEST(result.overlaps == 0u);
  BOOST_TEST(result.lost == 0u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_threads_have_it_one_after_the_other_and_none_sleeps_for_ever) {
  check(explore(2, 2, {.preemptions = 4}));
}

BOOST_AUTO_TEST_CASE(three_threads_have_it_one_after_the_other_and_none_sleeps_for_ever) {
  check(explore(3, 1, {.preemptions = 3}));
}

BOOST_AUTO_TEST_CASE(with_weak_stores_a_thread_sleeps_for_ever) {
  BOOST_TEST(explore(2, 1, {.preemptions = 2, .has_weak_stores = true}).outcome.stuck > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
