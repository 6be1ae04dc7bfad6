// Tests properties that the circulant graph has in addition to the properties of every plan.
#include "dataplane/relay/circulant.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "dataplane/base/random.hpp"
#include "tests/dataplane/relay/plans.hpp"
#include "tests/sampled.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(circulant_test)
namespace {

BOOST_AUTO_TEST_CASE(no_plan_takes_fewer_steps) {
  for (std::uint32_t members = 2; members <= 1025; ++members)
    for (const std::uint64_t blocks : {1ULL, 2ULL, 9ULL, 1ULL << 40})
      BOOST_REQUIRE_EQUAL(Circulant(Rank{0}, members).steps(blocks), blocks - 1 + depth_of(members));
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_each_group_to_2000) {
  for (std::uint32_t members = 2; members <= 2000; members += all_or(1U, 37U)) {
    // The groups with the same depth together test every length up to one and a half phases.
    for (const std::uint64_t blocks : {std::uint64_t{1}, 2 + members % (depth_of(members) * 3 / 2)}) {
      const GroupPlan plan{Algorithm::circulant, members};
      const std::string broken = Walk(plan, blocks).broken_invariant();
      BOOST_REQUIRE_MESSAGE(broken.empty(), plan.words() << ", " << blocks << " blocks: " << broken);
    }
  }
}

/// Compares the steps of one member with the steps of the members to which it sends and from which it
/// receives.
void check_alone(Rank rank, std::uint32_t members, std::uint64_t blocks) {
  const Circulant one(rank, members);
  std::set<std::uint64_t> held;
  for (std::uint64_t step = 0; step < one.steps(blocks); ++step) {
    const auto [send, receive] = one.at(step, blocks);
    if (send) {
      BOOST_REQUIRE(one.of(send->peer).at(step, blocks).receive == (Transfer{rank, send->block}));
      BOOST_REQUIRE(rank == Rank{0} || held.contains(send->block));
    }
    if (!receive) continue;
    BOOST_REQUIRE(one.of(receive->peer).at(step, blocks).send == (Transfer{rank, receive->block}));
    if (held.empty()) BOOST_REQUIRE(receive == one.first_receive(blocks));
    BOOST_REQUIRE(held.insert(receive->block).second);
  }
  BOOST_REQUIRE_EQUAL(held.size(), rank == Rank{0} ? 0 : blocks);
}

BOOST_AUTO_TEST_CASE(members_of_large_groups_agree_with_their_neighbours_and_get_each_block_once) {
  Random random(7);
  for (int i = 0; i < all_or(10'000, 300); ++i) {
    const auto members =
        static_cast<std::uint32_t>(2 + random.below(i % 10 == 0 ? kMaxMembers - 1 : 100'000));
    check_alone(Rank{static_cast<std::uint32_t>(random.below(members))}, members, 1 + random.below(50));
  }
  for (const std::uint32_t power : {1U << 10, 1U << 16, 1U << 19})
    for (const std::uint32_t members : {power - 1, power, power + 1})
      for (const std::uint32_t rank : {0U, 1U, members / 2, members - 1})
        check_alone(Rank{rank}, members, 30);
}

BOOST_AUTO_TEST_CASE(the_first_source_depends_on_the_block_count_modulo_the_rounds_of_a_phase) {
  for (std::uint32_t members = 2; members <= 130; ++members) {
    const std::uint64_t rounds = depth_of(members);
    for (std::uint32_t rank = 1; rank < members; ++rank) {
      const Circulant one(Rank{rank}, members);
      for (std::uint64_t blocks = 1; blocks <= rounds; ++blocks)
        BOOST_REQUIRE(one.first_receive(blocks + rounds)->peer ==
                      one.first_receive(blocks + 3 * rounds)->peer);
    }
  }
  const Circulant one(Rank{6}, 9);
  BOOST_TEST(value_of(one.first_receive(1)->peer) != value_of(one.first_receive(2)->peer));
}

BOOST_AUTO_TEST_CASE(every_member_but_the_root_has_a_source_and_a_destination_for_each_round) {
  for (std::uint32_t members = 2; members <= 300; ++members) {
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      const Circulant one(Rank{rank}, members);
      BOOST_REQUIRE_EQUAL(one.sources().size(), rank == 0 ? 0 : depth_of(members));
      // No member sends to the root, so one destination may be missing.
      BOOST_REQUIRE_GE(one.destinations().size(), depth_of(members) - 1);
      BOOST_REQUIRE_LE(one.destinations().size(), depth_of(members));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_least_ring_is_exact_where_it_changes) {
  for (std::uint32_t power = 128; power <= all_or(512U, 128U); power *= 2) {
    for (const std::uint32_t members : {power, power + 1, power * 5 / 4, power * 5 / 4 + 1}) {
      const GroupPlan plan{Algorithm::circulant, members};
      BOOST_TEST(plan.of(0).minimum_slots() == slots_needed(plan, 5 * depth_of(members)));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
