#include "lib/replica/driver.hpp"

#include <boost/test/unit_test.hpp>
#include <thread>

BOOST_AUTO_TEST_SUITE(driver_test)

using namespace rdmc;
using namespace rdmc::replica;

namespace {

/// Counts its turns without any protection, so that ThreadSanitizer reports two threads in the engine.
class Counting final : public engine::Poller {
 public:
  std::size_t work(Time) override {
    ++turns;
    const auto self = std::this_thread::get_id();
    if (self != last) ++changes;
    last = self;
    return 0;
  }
  std::uint64_t turns = 0, changes = 0;
  std::thread::id last;
};

}  // namespace

BOOST_AUTO_TEST_CASE(another_thread_stands_in_while_the_program_is_away_and_gives_way_at_once) {
  auto driver = Driver::open({.fabric = "shm"});
  BOOST_REQUIRE(driver.has_value());
  Counting counting;
  {
    const Driver::Call call(driver->get());
    (*driver)->thread().engine().add(counting);
  }
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 200; ++i) {
      Driver::Call call(driver->get());
      const auto before = counting.turns;
      call.turn({});
      BOOST_REQUIRE(counting.turns == before + 1);
    }
    // The program calls nothing, so only the other thread can run this task.
    std::atomic<bool> has_run = false;
    std::thread::id ran_on;
    const auto posted = (*driver)->thread().post([&] {
      ran_on = std::this_thread::get_id();
      has_run = true;
      has_run.notify_one();
    });
    BOOST_REQUIRE(posted.has_value());
    has_run.wait(false);
    BOOST_TEST((ran_on != std::this_thread::get_id()));
  }
  const Driver::Call call(driver->get());
  BOOST_TEST(counting.changes >= 10U);
  (*driver)->thread().engine().remove(counting);
}

BOOST_AUTO_TEST_CASE(a_call_interrupts_the_wait_of_the_thread_that_stands_in) {
  auto driver = Driver::open({.fabric = "shm"});
  BOOST_REQUIRE(driver.has_value());
  Counting counting;
  {
    const Driver::Call call(driver->get());
    (*driver)->thread().engine().add(counting);
  }
  for (int round = 0; round < 20; ++round) {
    // When its task has run, the other thread is about to wait, or waits already.
    std::atomic<bool> has_run = false;
    const auto posted = (*driver)->thread().post([&] {
      has_run = true;
      has_run.notify_one();
    });
    BOOST_REQUIRE(posted.has_value());
    has_run.wait(false);
    const Driver::Call call(driver->get());
    BOOST_TEST((*driver)->thread().is_current());
  }
  const Driver::Call call(driver->get());
  (*driver)->thread().engine().remove(counting);
}

BOOST_AUTO_TEST_SUITE_END()
