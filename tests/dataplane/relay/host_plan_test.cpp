// Tests the plans in which each host is one member of a plan between hosts.
#include "dataplane/relay/host_plan.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/plans.hpp"

BOOST_AUTO_TEST_SUITE(host_plan_test)

using namespace rdmc;
using namespace rdmc::relay;

namespace {

std::vector<std::uint32_t> some_hosts() {
  return *rc::gen::resize(20, rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint32_t>>(
                                  rc::gen::inRange<std::uint32_t>(1, 7))));
}

Algorithm some_algorithm() {
  return *rc::gen::element(Algorithm::host_pipeline, Algorithm::host_trees);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_hosts_of_any_sizes) {
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = in_hosts(some_hosts(), some_algorithm());
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 40);
    const std::string broken = Walk(plan, blocks).broken_invariant();
    if (!broken.empty()) RC_FAIL(plan.words() + ", " + std::to_string(blocks) + " blocks: " + broken);
  }));
}

BOOST_AUTO_TEST_CASE(the_network_carries_each_block_to_a_host_once_and_only_its_head_uses_the_network) {
  BOOST_TEST(rc::check([] {
    const auto sizes = some_hosts();
    const GroupPlan plan = in_hosts(sizes, some_algorithm());
    if (sizes.size() == 1) return;
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 30);
    std::vector<std::uint64_t> entered(sizes.size());
    for (const Schedule& one : plan.all()) {
      const std::size_t host = plan.racks.index_of(value_of(one.rank()));
      for (std::uint64_t step = 0; step < one.steps(blocks); ++step) {
        const auto receive = one.at(step, blocks).receive;
        if (!receive || plan.racks.index_of(value_of(receive->peer)) == host) continue;
        RC_ASSERT(value_of(one.rank()) == plan.racks.all()[host].head);
        ++entered[host];
      }
    }
    for (std::size_t host = 0; host < sizes.size(); ++host)
      RC_ASSERT(entered[host] == (host == 0 ? 0 : blocks));
  }));
}

BOOST_AUTO_TEST_CASE(between_hosts_it_is_the_binomial_pipeline_at_every_other_step) {
  const GroupPlan plan = in_hosts({3, 2, 1, 4, 2});
  for (const Rack& host : plan.racks.all()) {
    const auto index = static_cast<std::uint32_t>(plan.racks.index_of(host.head));
    const BinomialPipeline pipeline(Rank{index}, 5);
    for (std::uint64_t step = 0; step < pipeline.steps(9); ++step) {
      const auto expected = pipeline.at(step, 9).send;
      const auto send = plan.of(host.head).at(2 * step, 9).send;
      BOOST_REQUIRE_EQUAL(send.has_value(), expected.has_value());
      if (send) BOOST_REQUIRE_EQUAL(send->block, expected->block);
      if (send) BOOST_REQUIRE_EQUAL(value_of(send->peer), plan.racks.all()[value_of(expected->peer)].head);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_host_and_hosts_of_one_are_the_plan_between_hosts_itself) {
  for (const auto& [algorithm, between] : {std::pair(Algorithm::host_pipeline, Algorithm::binomial_pipeline),
                                           std::pair(Algorithm::host_trees, Algorithm::two_trees)}) {
    for (const auto& hosts :
         {in_hosts({6}, algorithm), in_hosts({1, 1, 1, 1, 1, 1}, algorithm), GroupPlan{algorithm, 6}}) {
      const GroupPlan plan{between, 6};
      for (std::uint32_t rank = 0; rank < 6; ++rank) {
        BOOST_REQUIRE_EQUAL(hosts.of(rank).steps(9), plan.of(rank).steps(9));
        for (std::uint64_t step = 0; step < plan.of(rank).steps(9); ++step)
          BOOST_REQUIRE(hosts.of(rank).at(step, 9) == plan.of(rank).at(step, 9));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_least_ring_is_enough_and_at_most_one_slot_too_large) {
  BOOST_TEST(rc::check([] {
    const GroupPlan plan = in_hosts(some_hosts());
    const std::uint64_t named = plan.of(0).minimum_slots(), needed = slots_needed(plan, 60);
    RC_ASSERT(named >= needed);
    RC_ASSERT(named <= needed + 1);
  }));
}

BOOST_AUTO_TEST_CASE(the_least_ring_of_host_trees_is_enough_and_no_larger_than_twice_the_depth) {
  BOOST_TEST(rc::check([] {
    const auto sizes = some_hosts();
    const GroupPlan plan = in_hosts(sizes, Algorithm::host_trees);
    const std::uint64_t named = plan.of(0).minimum_slots();
    RC_ASSERT(named >= slots_needed(plan, 60));
    RC_ASSERT(sizes.size() == 1 || named <= 2 * depth_of(static_cast<std::uint32_t>(sizes.size())));
  }));
}

BOOST_AUTO_TEST_SUITE_END()
