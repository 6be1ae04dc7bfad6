// Tests properties that the chain has in addition to the properties of every plan.
#include "dataplane/relay/chain.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(chain_test)
namespace {

BOOST_AUTO_TEST_CASE(a_chain_takes_a_step_for_each_block_and_each_member_behind_the_second) {
  for (std::uint32_t members = 2; members <= 300; ++members)
    for (const std::uint64_t blocks : {1ULL, 2ULL, 9ULL, 1ULL << 40})
      BOOST_REQUIRE_EQUAL(Chain(Rank{0}, members).steps(blocks), blocks + members - 2);
}

BOOST_AUTO_TEST_CASE(a_chain_knows_only_the_members_beside_it) {
  const auto all = GroupPlan{Algorithm::chain, 9}.all();
  BOOST_CHECK(all[0].neighbours() == std::vector{Rank{1}});
  BOOST_CHECK((all[4].neighbours() == std::vector{Rank{3}, Rank{5}}));
  BOOST_CHECK(all[8].neighbours() == std::vector{Rank{7}});
}

BOOST_AUTO_TEST_CASE(racks_of_one_make_a_chain) {
  for (const std::uint32_t members : {2U, 3U, 10U}) {
    const GroupPlan chain{Algorithm::chain, members};
    const GroupPlan racks = in_racks(std::vector<std::uint32_t>(members, 1));
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      BOOST_REQUIRE_EQUAL(chain.of(rank).steps(7), racks.of(rank).steps(7));
      for (std::uint64_t step = 0; step < chain.of(rank).steps(7); ++step)
        BOOST_REQUIRE(chain.of(rank).at(step, 7) == racks.of(rank).at(step, 7));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
