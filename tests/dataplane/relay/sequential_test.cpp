// Tests properties that the sequential plan has in addition to the properties of every plan.
#include "dataplane/relay/sequential.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(sequential_test)
namespace {

BOOST_AUTO_TEST_CASE(the_root_sends_every_block_to_everybody_itself) {
  for (std::uint32_t members = 2; members <= 40; ++members) {
    const auto all = GroupPlan{Algorithm::sequential, members}.all();
    for (const std::uint64_t blocks : {1ULL, 2ULL, 9ULL}) {
      BOOST_REQUIRE_EQUAL(all[0].steps(blocks), blocks * (members - 1));
      for (std::uint64_t step = 0; step < all[0].steps(blocks); ++step) {
        BOOST_REQUIRE(all[0].at(step, blocks).send.has_value());
        for (std::uint32_t rank = 1; rank < members; ++rank)
          BOOST_REQUIRE(!all[rank].at(step, blocks).send.has_value());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(only_the_root_has_more_than_one_connection) {
  const auto all = GroupPlan{Algorithm::sequential, 9}.all();
  BOOST_TEST(all[0].neighbours().size() == 8u);
  for (std::uint32_t rank = 1; rank < 9; ++rank) BOOST_CHECK(all[rank].neighbours() == std::vector{Rank{0}});
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
