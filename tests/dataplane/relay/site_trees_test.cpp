// Tests properties that the site trees have in addition to the properties of every plan. Each site has two
// trees, and each of the trees feeds the next site.
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "dataplane/relay/two_trees.hpp"
#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(site_trees_test)
namespace {

GroupPlan in_sites(const std::vector<std::uint32_t>& sizes) {
  return in_racks(sizes, Algorithm::site_trees);
}

std::vector<std::uint32_t> some_sites() {
  return *rc::gen::resize(
      40, rc::gen::container<std::vector<std::uint32_t>>(*rc::gen::inRange<std::size_t>(1, 9),
                                                         rc::gen::inRange<std::uint32_t>(1, 40)));
}

/// Calls `check` for every list of one to four sites, where each site has one to seven members. The argument
/// of `check` has the number of members of each site.
template <typename Check>
void for_each_small_list(Check check) {
  std::vector<std::uint32_t> sizes{1};
  while (sizes.size() <= 4) {
    check(sizes);
    std::size_t i = 0;
    while (i < sizes.size() && sizes[i] == 7) sizes[i++] = 1;
    if (i < sizes.size())
      ++sizes[i];
    else
      sizes.push_back(1);
  }
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_each_list_of_four_small_sites) {
  for_each_small_list([](const std::vector<std::uint32_t>& sizes) {
    const GroupPlan plan = in_sites(sizes);
    for (const std::uint64_t blocks : {1U, 2U, 3U, 8U, 13U}) {
      const std::string broken = Walk(plan, blocks).broken_invariant();
      BOOST_REQUIRE_MESSAGE(broken.empty(), plan.words() << ", " << blocks << " blocks: " << broken);
    }
  });
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_sites_of_any_sizes) {
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = in_sites(some_sites());
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 60);
    const std::string broken = Walk(plan, blocks).broken_invariant();
    if (!broken.empty()) RC_FAIL(plan.words() + ", " + std::to_string(blocks) + " blocks: " + broken);
  }));
}

/// A message of one block is excluded. Its block is in both trees, so it may cross an uplink twice.
BOOST_AUTO_TEST_CASE(every_uplink_carries_a_message_of_blocks_once_in_and_once_out) {
  const auto check = [](const std::vector<std::uint32_t>& sizes) {
    constexpr std::uint64_t kBlocks = 9;
    const GroupPlan plan = in_sites(sizes);
    std::vector<std::uint64_t> in(sizes.size()), out(sizes.size());
    for (const Schedule& one : plan.all()) {
      const std::size_t to = plan.racks.index_of(value_of(one.rank()));
      for (std::uint64_t step = 0; step < one.steps(kBlocks); ++step) {
        const auto receive = one.at(step, kBlocks).receive;
        const std::size_t from = receive ? plan.racks.index_of(value_of(receive->peer)) : to;
        if (from != to) ++out[from], ++in[to];
      }
    }
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (in[i] != (i == 0 ? 0 : kBlocks) || out[i] != (i + 1 == sizes.size() ? 0 : kBlocks)) return false;
    return true;
  };
  for_each_small_list([&](const std::vector<std::uint32_t>& sizes) { BOOST_REQUIRE(check(sizes)); });
  BOOST_TEST(rc::check([&] { RC_ASSERT(check(some_sites())); }));
}

BOOST_AUTO_TEST_CASE(no_more_than_one_block_crosses_an_uplink_in_a_step) {
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = in_sites(some_sites());
    constexpr std::uint64_t kBlocks = 12;
    const auto all = plan.all();
    for (std::uint64_t step = 0; step < all[0].steps(kBlocks); ++step) {
      std::vector<int> in(plan.racks.all().size());
      for (const Schedule& one : all) {
        const auto receive = one.at(step, kBlocks).receive;
        const std::size_t to = plan.racks.index_of(value_of(one.rank()));
        if (receive && plan.racks.index_of(value_of(receive->peer)) != to) RC_ASSERT(++in[to] == 1);
      }
    }
  }));
}

BOOST_AUTO_TEST_CASE(a_site_delays_those_behind_it_by_no_more_than_twice_its_depth) {
  BOOST_TEST(rc::check([] {
    const auto sizes = some_sites();
    std::uint64_t fill = 0;
    for (const std::uint32_t members : sizes) fill += 2 * depth_of(members + 1) + 1;
    RC_ASSERT(in_sites(sizes).of(0).steps(50) <= 50 + fill);
  }));
  BOOST_TEST(in_sites({8, 8}).of(0).steps(1000) == 1000u + 10);
}

BOOST_AUTO_TEST_CASE(a_member_has_two_sources_and_two_destinations_at_most) {
  BOOST_TEST(rc::check([] {
    for (const Schedule& one : in_sites(some_sites()).all()) {
      RC_ASSERT(one.sources().size() <= 2u);
      RC_ASSERT(one.destinations().size() <= 2u);
    }
  }));
}

/// If the last site passes nothing on, no member waits for a member that is alone behind a slow link.
BOOST_AUTO_TEST_CASE(a_last_site_of_one_member_passes_nothing_on) {
  for (std::uint32_t first = 1; first <= 20; ++first)
    BOOST_TEST(in_sites({first, 1}).of(first).destinations().empty());
}

BOOST_AUTO_TEST_CASE(one_site_is_the_two_trees) {
  for (const std::uint32_t members : {1U, 2U, 3U, 8U, 13U}) {
    const GroupPlan trees{Algorithm::two_trees, members};
    for (const GroupPlan& sites : {in_sites({members}), GroupPlan{Algorithm::site_trees, members}}) {
      BOOST_REQUIRE_EQUAL(sites.of(0).minimum_slots(), trees.of(0).minimum_slots());
      for (std::uint32_t rank = 0; rank < members; ++rank) {
        BOOST_REQUIRE_EQUAL(sites.of(rank).steps(9), trees.of(rank).steps(9));
        for (std::uint64_t step = 0; step < trees.of(rank).steps(9); ++step)
          BOOST_REQUIRE(sites.of(rank).at(step, 9) == trees.of(rank).at(step, 9));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_least_ring_is_no_smaller_than_what_the_plan_needs) {
  for_each_small_list([](const std::vector<std::uint32_t>& sizes) {
    const GroupPlan plan = in_sites(sizes);
    BOOST_REQUIRE_MESSAGE(plan.of(0).minimum_slots() >= slots_needed(plan, 20), plan.words());
  });
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = in_sites(some_sites());
    RC_ASSERT(plan.of(0).minimum_slots() >= slots_needed(plan, 50));
  }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
