#include "dataplane/fabric/shm/doorbell.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "tests/model/machine.hpp"

BOOST_AUTO_TEST_SUITE(doorbell_test)

using namespace rdmc;
using fabric::shm::Doorbell;
using fabric::shm::Sleep;
using model::Machine;

namespace {

/// Each peer publishes one request and rings the doorbell, as ShmQueuePair::ring() does. A fabric thread
/// takes the requests. Between two requests it sleeps, as ShmFabric::wait() does.
model::Outcome explore(std::size_t peers, Sleep how, const model::Options& options) {
  struct State {
    std::vector<std::unique_ptr<Atomic<std::uint32_t>>> posted;
    Atomic<std::uint32_t> messages = 0;  // the messages on the socket
  };
  Doorbell doorbell = Doorbell::make().value();
  State state;
  return Machine::explore(
      options,
      [&] {
        doorbell.awake();
        state.messages = 0;
        state.posted.clear();
        std::vector<Machine::Program> programs;
        for (std::size_t peer = 0; peer < peers; ++peer) {
          auto* const posted = state.posted.emplace_back(std::make_unique<Atomic<std::uint32_t>>(0)).get();
          programs.emplace_back([&, posted] {
            posted->store(1);
            if (!doorbell.is_asleep() || doorbell.ring() != Sleep::elsewhere) return;
            state.messages.fetch_add(1);
            Machine::wake(&state.messages, 1);
          });
        }
        programs.emplace_back([&, how] {
          const auto all_posted = [&] {
            for (const auto& posted : state.posted)
              if (posted->load() == 0) return false;
            return true;
          };
          while (!all_posted()) {
            const std::uint32_t seen = state.messages.load();
            doorbell.announce(how);
            if (!all_posted()) {
              if (how == Sleep::on_futex)
                doorbell.sleep(Time::never(), Time{});
              else
                Machine::wait(&state.messages, &seen, sizeof seen);
            }
            doorbell.awake();
          }
        });
        return programs;
      },
      [] {});
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_ring_is_lost) {
  for (const Sleep how : {Sleep::on_futex, Sleep::elsewhere}) {
    const model::Outcome outcome = explore(1, how, {.preemptions = 12});
    BOOST_TEST(outcome.runs > 100u);
    BOOST_TEST(outcome.stuck == 0u);
  }
}

BOOST_AUTO_TEST_CASE(no_ring_of_two_peers_is_lost) {
  for (const Sleep how : {Sleep::on_futex, Sleep::elsewhere}) {
    const model::Outcome outcome = explore(2, how, {.preemptions = 3});
    BOOST_TEST(outcome.runs > 1000u);
    BOOST_TEST(outcome.stuck == 0u);
  }
}

BOOST_AUTO_TEST_CASE(with_weak_stores_a_ring_is_lost) {
  for (const Sleep how : {Sleep::on_futex, Sleep::elsewhere})
    BOOST_TEST(explore(1, how, {.preemptions = 4, .has_weak_stores = true}).stuck > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
