#include "dataplane/engine/core_offer.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(core_offer_test)

using namespace rdmc;
using namespace rdmc::engine;

BOOST_AUTO_TEST_CASE(the_core_is_offered_from_the_end_of_the_patience_on) {
  const CoreOffer offer(32);
  BOOST_TEST(!offer.is_due(0));
  BOOST_TEST(!offer.is_due(31));
  BOOST_TEST(offer.is_due(32));
  BOOST_TEST(offer.is_due(33));
}

BOOST_AUTO_TEST_CASE(after_an_offer_that_was_taken_the_core_is_offered_at_once) {
  CoreOffer offer(32);
  offer.offered(CoreOffer::kUntaken + nanoseconds(1));
  BOOST_TEST(offer.is_due(0));
}

BOOST_AUTO_TEST_CASE(after_an_offer_that_nobody_took_the_patience_counts_again) {
  CoreOffer offer(32);
  offer.offered(seconds(1));
  offer.offered(CoreOffer::kUntaken);
  BOOST_TEST(!offer.is_due(31));
  BOOST_TEST(offer.is_due(32));
}

BOOST_AUTO_TEST_SUITE_END()
