#include <boost/test/unit_test.hpp>

#include "controlplane/view/local_time.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(local_time_test)
namespace {

constexpr Duration kStep = milliseconds(100);

BOOST_AUTO_TEST_CASE(it_goes_with_the_clock_while_turns_are_regular) {
  LocalTime local(kStep);
  for (int i = 0; i <= 50; ++i) local.advance(Time{} + seconds(1000) + milliseconds(20) * i);
  BOOST_TEST((local.now() == Time{} + seconds(1)));
  BOOST_TEST(local.jumps() == 0u);
}

BOOST_AUTO_TEST_CASE(a_leap_of_the_clock_counts_as_one_step_and_a_leap_back_as_nothing) {
  LocalTime local(kStep);
  local.advance(Time{});
  BOOST_TEST((local.advance(Time{} + seconds(10)) == Time{} + kStep));
  BOOST_TEST((local.advance(Time{} - seconds(10)) == Time{} + kStep));
  BOOST_TEST((local.advance(Time{} - seconds(10) + milliseconds(5)) == Time{} + kStep + milliseconds(5)));
  BOOST_TEST(local.jumps() == 2u);
}

BOOST_AUTO_TEST_CASE(deadlines_are_told_on_the_clock_as_it_is_now) {
  LocalTime local(kStep);
  local.advance(Time{} + seconds(5));
  local.advance(Time{} + seconds(50));
  BOOST_TEST((local.to_clock(local.now() + milliseconds(7)) == Time{} + seconds(50) + milliseconds(7)));
  BOOST_TEST((local.to_clock(Time::never()) == Time::never()));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view
