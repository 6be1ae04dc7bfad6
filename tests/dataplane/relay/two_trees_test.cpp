// Tests properties that the two trees have in addition to the properties of every plan.
#include "dataplane/relay/two_trees.hpp"

#include <array>
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(two_trees_test)
namespace {

BOOST_AUTO_TEST_CASE(two_trees_take_twice_the_depth_more_than_a_step_for_each_block) {
  for (std::uint32_t members = 2; members <= 1025; ++members)
    for (const std::uint64_t blocks : {1ULL, 2ULL, 9ULL, 1ULL << 40})
      BOOST_REQUIRE_EQUAL(TwoTrees(Rank{0}, members).steps(blocks), blocks + 2 * depth_of(members) - 2);
}

BOOST_AUTO_TEST_CASE(every_member_has_two_sources_at_most_two_destinations_and_those_in_one_tree) {
  constexpr std::uint64_t kBlocks = 40;
  for (const std::uint32_t members : {2U, 3U, 4U, 7U, 8U, 64U, 99U, 1000U}) {
    for (std::uint32_t rank = 1; rank < members; ++rank) {
      const TwoTrees one(Rank{rank}, members);
      BOOST_REQUIRE_LE(one.sources().size(), 2u);
      BOOST_REQUIRE_LE(one.destinations().size(), 2u);
      std::array<bool, 2> sends{};
      for (std::uint64_t step = 0; step < one.steps(kBlocks); ++step)
        if (const auto send = one.at(step, kBlocks).send) sends[send->block % 2] = true;
      BOOST_REQUIRE(!(sends[0] && sends[1]));
    }
  }
}

/// Checks the steps in the middle: both trees have reached the member, and both still have blocks to send.
BOOST_AUTO_TEST_CASE(in_between_every_member_takes_a_block_each_step_from_its_sources_in_turn) {
  constexpr std::uint64_t kBlocks = 100;
  for (const std::uint32_t members : {3U, 4U, 16U, 33U, 130U}) {
    for (std::uint32_t rank = 1; rank < members; ++rank) {
      const TwoTrees one(Rank{rank}, members);
      for (std::uint64_t step = 2 * depth_of(members); step < kBlocks - 1; ++step) {
        const auto now = one.at(step, kBlocks).receive, next = one.at(step + 1, kBlocks).receive;
        BOOST_REQUIRE(now.has_value());
        BOOST_REQUIRE(next.has_value());
        BOOST_REQUIRE_NE(now->block % 2, next->block % 2);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_least_ring_is_no_smaller_than_what_the_plan_needs) {
  for (std::uint32_t members = 1; members <= 300; ++members) {
    const GroupPlan plan{Algorithm::two_trees, members};
    BOOST_REQUIRE_GE(plan.of(0).minimum_slots(), slots_needed(plan, 4 * depth_of(members) + 11));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
