#include "lib/replica/verification.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(verification_test)

using namespace rdmc;
using namespace rdmc::replica;

BOOST_AUTO_TEST_CASE(excepted_messages_have_no_digest) {
  const std::vector<std::byte> bytes(100);
  Verification verification{.is_on = true};
  BOOST_REQUIRE(add_exceptions(verification, "tag=5,communicator=2,tag=7").has_value());
  const auto is_verified = [&](std::uint32_t context, std::int32_t tag) {
    return verification.digest(ContextId{context}, tag, bytes) != 0;
  };
  BOOST_TEST((is_verified(0, 4) && !is_verified(0, 5) && !is_verified(6, 7)));
  // The contexts 4 and 5 belong to communicator 2. Odd contexts are for collective operations.
  BOOST_TEST((!is_verified(4, 0) && !is_verified(5, 0) && is_verified(1, 5)));
  verification.is_on = false;
  BOOST_TEST(!is_verified(0, 4));
}

BOOST_AUTO_TEST_CASE(a_list_of_exceptions_that_is_none_is_refused_by_name) {
  for (const char* const list :
       {"", "tag", "tag=", "tag=x", "tag=-1", "tag=5,", "rank=1", "communicator=4294967295"}) {
    Verification verification;
    const auto added = add_exceptions(verification, list);
    BOOST_TEST((!added && added.error().code == Errc::invalid_argument), list);
  }
}

BOOST_AUTO_TEST_SUITE_END()
