// Tests a listener whose control loop has no memory for a time.
#include <boost/test/unit_test.hpp>

#include "tests/controlplane/connect/harness.hpp"
#include "tests/failing_memory.hpp"

namespace rdmc::control::testing {

using rdmc::testing::end_failures;
using rdmc::testing::fail_allocations;

BOOST_FIXTURE_TEST_CASE(a_listener_without_memory_turns_everybody_away_and_then_lets_the_next_one_in,
                        Harness) {
  listen(insecure_options());
  loop->call([] { fail_allocations(0); });
  for (int i = 0; i < 3; ++i) {
    UnauthenticatedClient client(listener->address());
    BOOST_TEST(client.hear_all().empty());
    BOOST_TEST(listener->counters().accept_failures >= static_cast<std::uint64_t>(i + 1));
  }
  BOOST_TEST(loop->call([] { return end_failures(); }) > 0);
  const auto& client = connect_to_listener(insecure_options());
  BOOST_TEST(events.wait([&] { return client.established; }));
}

}  // namespace rdmc::control::testing
