#include "dataplane/engine/sleep_handshake.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>

#include "tests/model/machine.hpp"

BOOST_AUTO_TEST_SUITE(sleep_handshake_test)

using namespace rdmc;
using model::Machine;

namespace {

/// Runs `posters` threads that post work, and one thread that takes the work. While there is no work, that
/// thread sleeps as an engine does. It ends when it has seen all of the work.
model::Outcome explore(std::uint32_t posters, bool has_weak_stores) {
  struct State {
    engine::SleepHandshake sleep;
    Atomic<std::uint32_t> queue = 0, word = 0;
  };
  std::unique_ptr<State> state;
  return Machine::explore(
      {.preemptions = 2, .has_weak_stores = has_weak_stores},
      [&] {
        state = std::make_unique<State>();
        std::vector<Machine::Program> programs(posters, [&state] {
          state->queue.fetch_add(1, std::memory_order_relaxed);
          if (!state->sleep.must_wake()) return;
          state->word.fetch_add(1);
          Machine::wake(&state->word, 1);
        });
        programs.emplace_back([&state, posters] {
          std::uint32_t done = 0;
          while (done != posters) {
            const std::uint32_t woken = state->word.load();
            state->sleep.announce();
            const std::uint32_t queue = state->queue.load(std::memory_order_relaxed);
            if (queue == done) Machine::wait(&state->word, &woken, sizeof woken);
            state->sleep.withdraw();
            done = queue;
          }
        });
        return programs;
      },
      [] {});
}

/// Does the same as explore() with one poster, but a plain store publishes the work. An engine's queue
/// publishes work in this way.
model::Outcome explore_a_plain_store(bool has_weak_stores) {
  struct State {
    engine::SleepHandshake sleep;
    Atomic<bool> queue = false;
    Atomic<std::uint32_t> word = 0;
  };
  std::unique_ptr<State> state;
  return Machine::explore(
      {.preemptions = 8, .has_weak_stores = has_weak_stores},
      [&] {
        state = std::make_unique<State>();
        return std::vector<Machine::Program>{[&state] {
                                               state->queue.store(true, std::memory_order_relaxed);
                                               if (!state->sleep.must_wake()) return;
                                               state->word.store(1);
                                               Machine::wake(&state->word, 1);
                                             },
                                             [&state] {
                                               state->sleep.announce();
                                               const std::uint32_t asleep = 0;
                                               if (!state->queue.load(std::memory_order_relaxed))
                                                 Machine::wait(&state->word, &asleep, sizeof asleep);
                                               state->sleep.withdraw();
                                             }};
      },
      [] {});
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_wake_up_is_lost_however_the_processor_reorders_reads_and_writes) {
  const model::Outcome outcome = explore_a_plain_store(false);
  BOOST_TEST(outcome.runs > 50u);
  BOOST_TEST(outcome.stuck == 0u);
}

BOOST_AUTO_TEST_CASE(without_fences_a_wake_up_is_lost) {
  BOOST_TEST(explore_a_plain_store(true).stuck > 0u);
}

BOOST_AUTO_TEST_CASE(no_wake_up_is_lost_with_several_posters) {
  const model::Outcome outcome = explore(2, false);
  BOOST_TEST(outcome.runs > 1000u);
  BOOST_TEST(outcome.stuck == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
