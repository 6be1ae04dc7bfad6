// Runs whole groups of relays with random orders of events. Every member must finish with the right length
// and the right bytes.
#include "tests/dataplane/relay/mesh.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/dataplane/relay/plans.hpp"
#include "tests/sampled.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(mesh_test)
namespace {

constexpr std::uint64_t kWhole = std::numeric_limits<std::uint64_t>::max();

std::string outcome(const MeshOptions& options) {
  return Mesh(options).run();
}

std::string describe(const MeshOptions& o) {
  return GroupPlan{o.algorithm, o.members, o.racks}.words() + ", " + std::to_string(o.length) +
         " bytes, blocks of " + std::to_string(o.block_bytes) + ", spare slots " +
         std::to_string(o.spare_slots) + ", in flight " + std::to_string(o.max_writes_in_flight) +
         (o.arenas ? ", arenas" : "") + ", seed " + std::to_string(o.seed);
}

Racks some_racks(std::uint32_t members) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t left = members; left > 0; left -= sizes.back())
    sizes.push_back(*rc::gen::inRange<std::uint32_t>(1, left + 1));
  return *Racks::of(sizes);
}

BOOST_AUTO_TEST_CASE(every_member_completes_with_the_exact_bytes_whatever_the_order_of_events) {
  const bool held = rc::check("every member completes", [] {
    MeshOptions options;
    options.algorithm = *rc::gen::elementOf(kAlgorithms);
    options.members = *rc::gen::inRange<std::uint32_t>(1, 40);
    if (options.algorithm == Algorithm::hybrid || options.algorithm == Algorithm::host_pipeline)
      options.racks = some_racks(options.members);
    options.block_bytes = *rc::gen::inRange<std::uint32_t>(1, 9);
    options.length = *rc::gen::inRange<std::uint64_t>(0, 60 * options.block_bytes);
    options.max_writes_in_flight = *rc::gen::element<std::uint32_t>(1, 2, 3, 16);
    options.spare_slots = *rc::gen::element<std::uint64_t>(0, 0, 1, 3, 8, kWhole);
    options.arenas = *rc::gen::arbitrary<bool>();
    options.slow_per_million = *rc::gen::element<std::uint32_t>(0, 300'000, 900'000);
    options.overtake_per_million = *rc::gen::element<std::uint32_t>(0, 20'000, 500'000);
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    const std::string problem = outcome(options);
    if (!problem.empty()) RC_FAIL(problem + ": " + describe(options));
  });
  BOOST_TEST(held);
}

void complete_all(MeshOptions options) {
  for (options.length = 0; options.length <= 40; options.length += all_or(1, 7)) {
    for (const bool arenas : {false, true}) {
      options.arenas = arenas;
      options.seed = options.members * 1000 + options.length;
      const std::string problem = outcome(options);
      BOOST_REQUIRE_MESSAGE(problem.empty(), problem << ": " << describe(options));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_small_group_and_message_completes_on_the_least_ring) {
  for (const Algorithm algorithm : kAlgorithms)
    for (std::uint32_t members = 1; members <= 18; ++members)
      complete_all({.algorithm = algorithm, .members = members, .block_bytes = 3});
}

BOOST_AUTO_TEST_CASE(every_small_group_in_racks_completes_on_the_least_ring) {
  for (const std::vector<std::uint32_t>& sizes : std::vector<std::vector<std::uint32_t>>{
           {1, 1}, {2, 2}, {4, 4, 4}, {1, 7}, {3, 3, 3}, {8, 1, 5}, {2, 1, 1, 2}, {5, 6, 7}}) {
    for (const GroupPlan& plan : {in_racks(sizes), in_hosts(sizes), in_hosts(sizes, Algorithm::host_trees),
                                  in_racks(sizes, Algorithm::site_trees)})
      complete_all(
          {.algorithm = plan.algorithm, .members = plan.members, .racks = plan.racks, .block_bytes = 3});
  }
}

BOOST_AUTO_TEST_CASE(large_groups_complete_on_the_least_ring) {
  for (const std::uint32_t members : {63U, 64U, 65U, 127U, 130U}) {
    for (const std::uint64_t length : {2ULL, 41ULL}) {
      const MeshOptions options{.members = members,
                                .length = length,
                                .block_bytes = 2,
                                .arenas = length == 2,
                                .slow_per_million = 500'000,
                                .seed = members};
      const std::string problem = outcome(options);
      BOOST_REQUIRE_MESSAGE(problem.empty(), problem << ": " << describe(options));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_longer_ring_takes_fewer_grants) {
  const auto grants = [](std::uint64_t spare) {
    Mesh mesh({.members = 8, .length = 200, .block_bytes = 1, .spare_slots = spare});
    BOOST_REQUIRE(mesh.run().empty());
    return mesh.grants();
  };
  const std::uint64_t whole = grants(kWhole);
  const std::uint64_t ring = grants(61);
  // There is one grant for each of the three sources of each of the seven receivers.
  BOOST_TEST(whole == 21u);
  BOOST_TEST(ring <= 21 * (2 + 200 / 16));
  BOOST_TEST(ring < grants(0) / 4);
}

/// Returns the number of steps if all members make each step at the same time. After each step, all writes
/// arrive, are acknowledged and consumed, and all grants are delivered.
std::uint64_t lockstep_steps(const GroupPlan& plan, std::uint64_t blocks, std::uint64_t slots) {
  const std::uint32_t members = plan.members;
  std::vector<Relay> group;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    group.push_back(*Relay::create({.algorithm = plan.algorithm,
                                    .rank = Rank{rank},
                                    .members = members,
                                    .racks = plan.racks,
                                    .block_bytes = 4}));
    BOOST_REQUIRE(group[rank].set_length(4 * blocks - 1).has_value());
    BOOST_REQUIRE(group[rank].set_memory({slots, 1 << 20, RemoteKey{1}}).has_value());
  }
  group[0].on_available(blocks);
  const auto is_complete = [](const Relay& one) { return one.is_complete(); };
  std::uint64_t step = 0;
  for (; !std::ranges::all_of(group, is_complete) && step < plan.of(0).steps(blocks); ++step) {
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      Rank to{};
      for (BlockGrant grant; group[rank].poll_grant(to, grant);) {
        BOOST_REQUIRE(group[value_of(to)].on_grant(Rank{rank}, grant).has_value());
      }
    }
    std::vector<std::pair<std::uint32_t, BlockWrite>> posted;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      const auto planned = group[rank].schedule().at(step, blocks).send;
      BlockWrite write;
      if (!planned || !group[rank].poll_write(write)) continue;
      BOOST_REQUIRE((planned == Transfer{write.to, write.block}));
      posted.emplace_back(rank, write);
    }
    for (const auto& [rank, write] : posted) {
      Relay& receiver = group[value_of(write.to)];
      BOOST_REQUIRE(receiver.on_block(Rank{rank}, write.immediate, write.bytes) == write.block);
      group[rank].on_write_complete(write.to, write.block);
      receiver.on_consumed(write.block);
    }
  }
  return std::ranges::all_of(group, is_complete) ? step : ~std::uint64_t{0};
}

BOOST_AUTO_TEST_CASE(in_step_the_bound_is_met_on_the_least_ring_and_no_grant_ever_starves) {
  std::vector<GroupPlan> plans{
      in_racks({4, 4, 4, 4}),          in_racks({1, 9, 2, 16}),
      in_racks({7, 5, 3, 1}),          in_racks({17, 1, 1, 30}),
      in_hosts({4, 4, 4, 4}),          in_hosts({1, 9, 2, 5, 3}),
      in_hosts({3, 1, 1, 2, 6, 1, 1}), in_hosts({3, 1, 1, 2, 6, 1, 1}, Algorithm::host_trees)};
  for (std::uint32_t members = 2; members <= 66; members += all_or(1U, 5U)) {
    plans.push_back({.members = members});
    plans.push_back({Algorithm::circulant, members});
  }
  for (const Algorithm algorithm : {Algorithm::binomial_tree, Algorithm::chain, Algorithm::sequential})
    for (const std::uint32_t members : {2U, 3U, 8U, 13U, 33U}) plans.push_back({algorithm, members});
  for (const GroupPlan& plan : plans) {
    for (const std::uint64_t blocks : {1ULL, 2ULL, 7ULL, 40ULL}) {
      for (const std::uint64_t spare : {0ULL, 1ULL, 5ULL, 100ULL}) {
        const auto taken = lockstep_steps(plan, blocks, plan.of(0).minimum_slots() + spare);
        BOOST_REQUIRE_MESSAGE(taken == plan.of(0).steps(blocks),
                              plan.words() << ", " << blocks << " blocks: " << taken << " steps");
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
