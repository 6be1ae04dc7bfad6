#include "apps/bcast-cli/throttle.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(throttle_test)

using namespace rdmc;
using namespace rdmc::bcast;

BOOST_AUTO_TEST_CASE(the_first_is_told_and_all_are_counted_but_never_two_within_an_interval) {
  BOOST_TEST(rc::check([](const std::vector<std::uint8_t>& pauses) {
    constexpr Duration kInterval = milliseconds(100);
    Throttle throttle(kInterval);
    Time now{};
    std::optional<Time> last;
    std::uint64_t accounted = 0;
    std::uint64_t kept_back = 0;
    for (const auto pause : pauses) {
      now = now + milliseconds(pause);
      const auto told = throttle.take(now);
      RC_ASSERT(told.has_value() == (!last || now - *last >= kInterval));
      if (!told) {
        ++kept_back;
        continue;
      }
      last = now;
      accounted += *told + 1;
      kept_back = 0;
    }
    RC_ASSERT(accounted + kept_back == pauses.size());
  }));
}

BOOST_AUTO_TEST_SUITE_END()
