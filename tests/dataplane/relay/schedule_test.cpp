// Tests the properties of every algorithm's plan, for groups with and without racks.
#include "dataplane/relay/schedule.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/plans.hpp"
#include "tests/sampled.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(schedule_test)
namespace {

const std::uint32_t kStride = all_or(1U, 5U);

void require_clean(const GroupPlan& plan, std::uint64_t blocks) {
  const std::string broken = Walk(plan, blocks).broken_invariant();
  BOOST_REQUIRE_MESSAGE(broken.empty(), plan.words() << ", " << blocks << " blocks: " << broken);
}

std::vector<std::uint32_t> some_racks(std::uint32_t most_racks, std::uint32_t most_members) {
  return *rc::gen::resize(100, rc::gen::container<std::vector<std::uint32_t>>(
                                   *rc::gen::inRange<std::size_t>(1, most_racks + 1),
                                   rc::gen::inRange<std::uint32_t>(1, most_members + 1)));
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_each_group_to_130_and_each_message_to_24_blocks) {
  for (const Algorithm algorithm : kAlgorithms) {
    // A sequential plan has many steps, so only a few lengths are tested.
    const std::uint64_t thin = algorithm == Algorithm::sequential ? 5 : 1;
    for (std::uint32_t members = 1; members <= 130; members += kStride) {
      for (std::uint64_t blocks = 1; blocks <= 24; ++blocks) {
        if (blocks <= 4 || blocks == 24 || (blocks + members) % thin == 0)
          require_clean({algorithm, members}, blocks);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_in_racks_of_any_sizes) {
  const bool held = rc::check("racks", [] {
    const GroupPlan plan = in_racks(some_racks(12, 20));
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 25);
    const std::string broken = Walk(plan, blocks).broken_invariant();
    if (!broken.empty()) RC_FAIL(plan.words() + ", " + std::to_string(blocks) + " blocks: " + broken);
  });
  BOOST_TEST(held);
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_in_two_racks_of_each_pair_of_sizes) {
  for (std::uint32_t first = 1; first <= 18; first += kStride)
    for (std::uint32_t second = 1; second <= 18; ++second)
      for (const std::uint64_t blocks : {1U, 2U, 3U, 7U, 20U})
        require_clean(in_racks({first, second}), blocks);
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_samples_of_large_groups_and_long_messages) {
  struct Sample {
    std::uint32_t members;
    std::uint64_t blocks;
  };
  for (const Algorithm algorithm : {Algorithm::binomial_pipeline, Algorithm::binomial_tree, Algorithm::chain,
                                    Algorithm::two_trees, Algorithm::circulant}) {
    for (const auto [members, blocks] : {Sample{2, 300},
                                         {3, 300},
                                         {7, 257},
                                         {15, 300},
                                         {16, 299},
                                         {17, 300},
                                         {31, 100},
                                         {100, 300},
                                         {127, 64},
                                         {255, 40},
                                         {256, 41},
                                         {257, 42},
                                         {511, 1},
                                         {512, 9},
                                         {513, 10},
                                         {700, 33},
                                         {1023, 30},
                                         {1024, 30}}) {
      require_clean({algorithm, members}, blocks);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_group_of_one_takes_no_step_and_knows_nobody) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (const Racks& racks : {Racks{}, Racks::one(1)}) {
      const Schedule alone(algorithm, Rank{0}, 1, racks);
      BOOST_TEST(alone.steps(1) == 0u);
      BOOST_TEST(alone.steps(1000) == 0u);
      BOOST_TEST(alone.neighbours().empty());
      BOOST_CHECK(!alone.first_receive(7));
      BOOST_CHECK(!alone.first_source_of(Rank{0}, 7));
    }
  }
}

/// Checks the first receive in messages of 1 to 12 blocks. At some of these lengths, the shape of a plan
/// changes.
void check_first_source(const GroupPlan& plan) {
  for (const Schedule& one : plan.all()) {
    const auto longest = one.first_receive(kMaxBlocks);
    for (std::uint64_t blocks = 1; blocks <= 12; ++blocks) {
      std::optional<Transfer> seen;
      for (std::uint64_t step = 0; !seen && step < one.steps(blocks); ++step)
        seen = one.at(step, blocks).receive;
      BOOST_REQUIRE_EQUAL(seen.has_value(), !one.is_root());
      if (!seen) continue;
      BOOST_REQUIRE(seen->peer == longest->peer);
      BOOST_REQUIRE_EQUAL(seen->block, std::min(longest->block, blocks - 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_first_source_that_needs_no_length_never_depends_on_it_and_the_block_only_by_the_cap) {
  for (const Algorithm algorithm : kAlgorithms) {
    if (first_source_needs_length(algorithm)) continue;
    for (std::uint32_t members = 2; members <= 130; members += kStride)
      check_first_source({algorithm, members});
  }
  for (std::uint32_t first = 1; first <= 17; first += kStride)
    for (std::uint32_t second = 1; second <= 17; ++second)
      for (const GroupPlan& plan : {in_racks({first, second, 1, 5}), in_hosts({first, second, 1, 5}),
                                    in_hosts({first, second, 1, 5}, Algorithm::host_trees),
                                    in_racks({first, second, 1, 5}, Algorithm::site_trees)})
        check_first_source(plan);
}

void check_mirror(const GroupPlan& plan) {
  const auto all = plan.all();
  for (const Schedule& one : all) {
    for (const Rank to : one.destinations())
      BOOST_REQUIRE(std::ranges::binary_search(all[value_of(to)].sources(), one.rank()));
    for (const Rank from : one.sources())
      BOOST_REQUIRE(std::ranges::binary_search(all[value_of(from)].destinations(), one.rank()));
  }
}

BOOST_AUTO_TEST_CASE(sources_and_destinations_mirror_each_other) {
  for (const Algorithm algorithm : kAlgorithms)
    for (std::uint32_t members = 2; members <= 130; members += kStride) check_mirror({algorithm, members});
  for (std::uint32_t first = 1; first <= 17; first += kStride)
    for (std::uint32_t second = 1; second <= 17; ++second)
      for (const GroupPlan& plan : {in_racks({first, second, 2}), in_hosts({first, second, 2}),
                                    in_hosts({first, second, 2}, Algorithm::host_trees),
                                    in_racks({first, second, 2}, Algorithm::site_trees)})
        check_mirror(plan);
}

void check_next(const GroupPlan& plan, std::uint64_t blocks) {
  for (const Schedule& one : plan.all()) {
    const std::uint64_t steps = one.steps(blocks);
    for (const Rank source : one.neighbours()) {
      std::uint64_t asked = 0;
      for (std::uint64_t step = 0; step < steps; ++step) {
        const auto receive = one.at(step, blocks).receive;
        if (!receive || receive->peer != source) continue;
        BOOST_REQUIRE(one.next_receive_from(source, asked, blocks) == step);
        asked = step + 1;
      }
      BOOST_REQUIRE(!one.next_receive_from(source, asked, blocks));
    }
    BOOST_REQUIRE(!one.next_receive_from(one.rank(), 0, blocks));
    std::uint64_t asked = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      if (!one.at(step, blocks).send) continue;
      BOOST_REQUIRE(!one.next_send(asked, step, blocks));
      BOOST_REQUIRE(one.next_send(asked, steps, blocks) == step);
      asked = step + 1;
    }
    BOOST_REQUIRE(!one.next_send(asked, steps, blocks));
  }
}

BOOST_AUTO_TEST_CASE(the_next_send_and_the_next_receive_from_a_source_are_what_a_walk_over_all_steps_finds) {
  for (const std::uint64_t blocks : {1U, 2U, 5U, 13U, 50U}) {
    for (const Algorithm algorithm : kAlgorithms)
      for (std::uint32_t members = 2; members <= 26; ++members) check_next({algorithm, members}, blocks);
    for (std::uint32_t size = 1; size <= 17; ++size) {
      check_next(in_racks({size, size, 3}), blocks);
      check_next(in_hosts({size, size, 3, 1, 2}), blocks);
      check_next(in_hosts({size, size, 3, 1, 2}, Algorithm::host_trees), blocks);
      check_next(in_racks({size, size, 3, 1, 2}, Algorithm::site_trees), blocks);
    }
  }
}

void check_slots(const GroupPlan& plan, std::uint64_t blocks) {
  BOOST_REQUIRE_MESSAGE(
      plan.of(0).minimum_slots() == slots_needed(plan, blocks),
      plan.words() << ": " << plan.of(0).minimum_slots() << " slots, not " << slots_needed(plan, blocks));
}

BOOST_AUTO_TEST_CASE(the_least_ring_is_exactly_what_the_plan_needs) {
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::hybrid || algorithm == Algorithm::two_trees ||
        algorithm == Algorithm::host_trees || algorithm == Algorithm::site_trees)
      continue;
    for (std::uint32_t members = 1; members <= 130; members += kStride)
      check_slots({algorithm, members}, algorithm == Algorithm::sequential ? 5 : 6 * depth_of(members) + 11);
  }
  for (const std::uint32_t members : {255U, 256U, 257U, 1000U})
    check_slots({Algorithm::binomial_pipeline, members}, 50);
  for (std::uint32_t first = 1; first <= 18; first += kStride) {
    for (std::uint32_t second = 1; second <= 18; ++second) {
      check_slots(in_racks({first, second}), 40);
      check_slots(in_racks({first, second, 2}), 40);
    }
  }
}

/// The message has hundreds of terabytes in small blocks. So no function may iterate over its steps, and no
/// calculation may overflow.
BOOST_AUTO_TEST_CASE(the_longest_message_is_planned_without_walking_there) {
  for (const Algorithm algorithm : kAlgorithms) {
    const GroupPlan plan{algorithm, 9, *Racks::of(std::vector<std::uint32_t>{4, 3, 2})};
    const auto all = plan.all();
    const std::uint64_t steps = all[0].steps(kMaxBlocks);
    for (const std::uint64_t start : {steps / 3, steps - 40}) {
      for (std::uint64_t step = start; step < start + 40; ++step) {
        for (const Schedule& one : all) {
          const auto send = one.at(step, kMaxBlocks).send;
          if (!send) continue;
          const Schedule& other = all[value_of(send->peer)];
          BOOST_REQUIRE(other.at(step, kMaxBlocks).receive == (Transfer{one.rank(), send->block}));
          BOOST_REQUIRE(other.next_receive_from(one.rank(), step, kMaxBlocks) == step);
          BOOST_REQUIRE(one.next_send(step, steps, kMaxBlocks) == step);
        }
      }
    }
  }
  const Schedule most(Algorithm::sequential, Rank{kMaxMembers - 1}, kMaxMembers);
  const std::uint64_t last = most.steps(kMaxBlocks) - 1;
  BOOST_CHECK(most.at(last, kMaxBlocks).receive == (Transfer{Rank{0}, kMaxBlocks - 1}));
}

BOOST_AUTO_TEST_CASE(no_first_block_passes_more_members_than_the_most_hops) {
  for (const Algorithm algorithm : kAlgorithms) {
    for (std::uint32_t members = 2; members <= 130; members += kStride) {
      const GroupPlan plan{algorithm, members, Racks::one(members)};
      for (const Schedule& one : plan.all()) {
        for (const std::uint64_t blocks : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
          std::uint64_t hops = 0;
          for (Rank at = one.rank(); at != Rank{0}; at = *one.first_source_of(at, blocks)) ++hops;
          BOOST_REQUIRE_LE(hops, most_hops(algorithm, members));
          if (!first_source_needs_length(algorithm)) break;
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(names_and_numbers_of_algorithms_go_both_ways) {
  for (const Algorithm algorithm : kAlgorithms) {
    BOOST_TEST(!to_string(algorithm).empty());
    BOOST_CHECK(algorithm_of(to_string(algorithm)) == algorithm);
    BOOST_CHECK(algorithm_of(static_cast<std::uint32_t>(algorithm)) == algorithm);
  }
  BOOST_CHECK(!algorithm_of("binomial"));
  BOOST_CHECK(!algorithm_of(""));
  BOOST_CHECK(!algorithm_of(10U));
  BOOST_CHECK(!algorithm_of(256U));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
