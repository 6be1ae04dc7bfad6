#include "lib/state/agreed_clock.hpp"

#include <boost/test/unit_test.hpp>

namespace rdmc::state {

BOOST_AUTO_TEST_SUITE(agreed_clock_test)

BOOST_AUTO_TEST_CASE(without_jumps_it_is_the_wall_clock) {
  AgreedClock clock;
  for (std::int64_t steady = 0; steady < 100'000; steady += 7) {
    const std::int64_t wall = 5'000'000 + steady;
    BOOST_REQUIRE_EQUAL(clock.read(wall, steady), wall);
    clock.observe(wall, steady + 3);  // the event comes back a little later
  }
}

BOOST_AUTO_TEST_CASE(after_a_jump_back_it_goes_on_and_meets_the_wall_clock_again) {
  AgreedClock clock;
  constexpr std::int64_t kJump = 10'000;
  clock.observe(1'000'000 + kJump, 0);
  std::int64_t last = 1'000'000 + kJump, met_at = 0;
  for (std::int64_t steady = 1; met_at == 0; ++steady) {
    const std::int64_t wall = 1'000'000 + steady, time = clock.read(wall, steady);
    BOOST_REQUIRE(time >= last);
    BOOST_REQUIRE(time - last <= 1);
    if (steady % 160 == 0) BOOST_REQUIRE_EQUAL(time, 1'000'000 + kJump + steady / 16 * 15);
    if (time == wall) met_at = steady;
    // Many events come back late. This must not slow the clock down.
    clock.observe(last, steady);
    last = time;
  }
  BOOST_TEST(met_at == kJump * 16);
}

BOOST_AUTO_TEST_CASE(it_goes_on_from_the_time_of_another_process) {
  AgreedClock clock;
  BOOST_TEST(clock.read(500, 70) == 500);
  clock.observe(2000, 80);
  BOOST_TEST(clock.read(510, 80) == 2000);
  BOOST_TEST(clock.read(526, 96) == 2015);
  BOOST_TEST(clock.read(526, 60) == 2000);
  clock.reset();
  BOOST_TEST(clock.read(530, 100) == 530);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace rdmc::state
