// Tests properties that the binomial tree has in addition to the properties of every plan.
#include "dataplane/relay/binomial_tree.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(binomial_tree_test)
namespace {

BOOST_AUTO_TEST_CASE(each_block_takes_as_many_steps_as_the_members_double) {
  for (std::uint32_t members = 2; members <= 300; ++members) {
    std::uint64_t doublings = 0;
    while ((1U << doublings) < members) ++doublings;
    for (const std::uint64_t blocks : {1ULL, 2ULL, 9ULL, 1ULL << 40})
      BOOST_REQUIRE_EQUAL(BinomialTree(Rank{0}, members).steps(blocks), blocks * doublings);
  }
}

BOOST_AUTO_TEST_CASE(those_who_hold_a_block_double_with_each_step) {
  for (const std::uint32_t members : {2U, 3U, 8U, 13U, 64U, 100U}) {
    const auto all = GroupPlan{Algorithm::binomial_tree, members}.all();
    std::uint32_t holders = 1;
    for (std::uint64_t step = 0; step < all[0].steps(1); ++step) {
      const auto sends = static_cast<std::uint32_t>(
          std::ranges::count_if(all, [&](const Schedule& one) { return one.at(step, 1).send.has_value(); }));
      BOOST_TEST(sends == std::min(holders, members - holders));
      holders += sends;
    }
    BOOST_TEST(holders == members);
  }
}

BOOST_AUTO_TEST_CASE(a_block_goes_down_the_whole_tree_before_the_next) {
  const auto root = GroupPlan{Algorithm::binomial_tree, 6}.of(0);
  const std::vector<Transfer> sends{{Rank{1}, 0}, {Rank{2}, 0}, {Rank{4}, 0}, {Rank{1}, 1}, {Rank{2}, 1}};
  for (std::uint64_t step = 0; step < sends.size(); ++step) BOOST_CHECK(root.at(step, 2).send == sends[step]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
