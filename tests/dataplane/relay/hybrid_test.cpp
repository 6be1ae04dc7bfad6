// Tests properties that the rack-aware plan has in addition to the properties of every plan.
#include "dataplane/relay/hybrid.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(hybrid_test)
namespace {

const std::vector<std::vector<std::uint32_t>> kSome{{5},          {1, 1},       {4, 4, 4, 4}, {1, 8, 3},
                                                    {3, 3, 3, 3}, {16, 16},     {7, 1, 12},   {2, 2, 2, 2, 2},
                                                    {20, 5, 9},   {32, 32, 32}, {1, 31, 33},  {6, 64}};

BOOST_AUTO_TEST_CASE(a_rack_delays_those_behind_it_by_its_dimensions_and_one) {
  for (const auto& sizes : kSome) {
    std::uint64_t delay = 0, longest = 0;
    for (const std::uint32_t members : sizes) {
      std::uint64_t floor = 0, ceiling = 0;
      while ((2U << floor) <= members) ++floor;
      while ((1U << ceiling) < members) ++ceiling;
      longest = std::max(longest, delay + ceiling);
      delay += floor + 1;
    }
    for (const std::uint64_t blocks : {1ULL, 2ULL, 50ULL, 1ULL << 40})
      BOOST_REQUIRE_EQUAL(in_racks(sizes).of(0).steps(blocks), blocks - 1 + longest);
  }
}

BOOST_AUTO_TEST_CASE(in_the_last_step_somebody_still_receives) {
  for (const auto& sizes : kSome) {
    for (const std::uint64_t blocks : {1U, 2U, 5U, 30U}) {
      const auto all = in_racks(sizes).all();
      const std::uint64_t last = all[0].steps(blocks) - 1;
      BOOST_CHECK(std::ranges::any_of(
          all, [&](const Schedule& one) { return one.at(last, blocks).receive.has_value(); }));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_uplink_carries_the_message_once_in_and_once_out) {
  constexpr std::uint64_t kBlocks = 23;
  for (const auto& sizes : kSome) {
    const GroupPlan plan = in_racks(sizes);
    const auto racks = plan.racks.all();
    std::vector<std::uint64_t> in(racks.size()), out(racks.size());
    for (const Schedule& one : plan.all()) {
      const std::size_t from = plan.racks.index_of(value_of(one.rank()));
      for (std::uint64_t step = 0; step < one.steps(kBlocks); ++step) {
        const auto send = one.at(step, kBlocks).send;
        const std::size_t to = send ? plan.racks.index_of(value_of(send->peer)) : from;
        if (to != from) ++out[from], ++in[to];
      }
    }
    for (std::size_t i = 0; i < racks.size(); ++i) {
      BOOST_TEST(in[i] == (i == 0 ? 0 : kBlocks));
      BOOST_TEST(out[i] == (i + 1 == racks.size() ? 0 : kBlocks));
    }
  }
}

BOOST_AUTO_TEST_CASE(one_rack_is_the_binomial_pipeline) {
  for (const std::uint32_t members : {2U, 3U, 8U, 13U}) {
    const GroupPlan pipeline{Algorithm::binomial_pipeline, members};
    for (const GroupPlan& hybrid : {in_racks({members}), GroupPlan{Algorithm::hybrid, members}}) {
      for (std::uint32_t rank = 0; rank < members; ++rank) {
        for (std::uint64_t step = 0; step < pipeline.of(rank).steps(9); ++step)
          BOOST_REQUIRE(hybrid.of(rank).at(step, 9) == pipeline.of(rank).at(step, 9));
        BOOST_REQUIRE(hybrid.of(rank).neighbours() == pipeline.of(rank).neighbours());
      }
    }
  }
}

/// Inside its rack, a member has the connections of the pipeline. A member that sends to the next rack has
/// one additional connection.
BOOST_AUTO_TEST_CASE(connections_grow_as_the_logarithm_of_a_rack) {
  for (const auto& sizes : kSome) {
    const GroupPlan plan = in_racks(sizes);
    for (const Schedule& one : plan.all()) {
      std::set<std::size_t> others;
      const std::size_t own = plan.racks.index_of(value_of(one.rank()));
      std::uint64_t inside = 0;
      for (const Rank peer : one.neighbours()) {
        const std::size_t index = plan.racks.index_of(value_of(peer));
        BOOST_TEST(index + 1 >= own);
        BOOST_TEST(index <= own + 1);
        inside += index == own ? 1 : 0;
      }
      BOOST_TEST(inside <= 2 * depth_of(plan.racks.all()[own].members) + 1);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
