#include "controlplane/peer/last_turns.hpp"

#include <boost/test/unit_test.hpp>

namespace rdmc::peer {
BOOST_AUTO_TEST_SUITE(last_turns_test)

BOOST_AUTO_TEST_CASE(a_connection_with_nothing_to_do_gets_three_turns) {
  LastTurns turns;
  BOOST_TEST(!turns.are_over(0));
  BOOST_TEST(!turns.are_over(0));
  BOOST_TEST(turns.are_over(0));
}

BOOST_AUTO_TEST_CASE(one_with_something_to_do_goes_on_until_it_has_nothing) {
  LastTurns turns;
  for (int i = 0; i < 10; ++i) BOOST_TEST(!turns.are_over(1));
  BOOST_TEST(turns.are_over(0));
}

BOOST_AUTO_TEST_CASE(a_peer_that_goes_on_for_ever_is_not_heard_for_ever) {
  LastTurns turns;
  int count = 1;
  while (!turns.are_over(1)) BOOST_TEST_REQUIRE(++count <= 64);
  BOOST_TEST(count == 64);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::peer
