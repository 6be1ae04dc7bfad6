// Kills any member at any step of any message. Within a second, every other member must know which member was
// killed. It must have exactly the messages that were reported to it. The tests run a sample of the cases.
// With RDMC_EVERY_STEP=1, they try every member at every step.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "tests/lib/group/world.hpp"

BOOST_AUTO_TEST_SUITE(kill_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

constexpr std::uint32_t kBlock = 4096;
const PeersConfig kPeers{.link = {.ring_bytes = 16 * 1024}, .keepalive = milliseconds(150), .early = {}};

/// Returns the number of steps of a member so far. Each block and each small message that the member has sent
/// or received is a step.
std::uint64_t steps_of(GroupEnd& end) {
  const GroupCounters& c = end.group().counters();
  return c.blocks_sent + c.blocks_received + c.smalls_sent + c.smalls_delivered;
}

/// Sends a large message of `blocks` blocks, a small message, and another large message. If `automatic` is
/// true, each message has a random algorithm. Kills `victim` when it has done `step` steps. Returns false if
/// it never reaches this number of steps.
bool kill_at(std::uint64_t seed, std::size_t count, std::uint64_t blocks, std::size_t victim,
             std::uint64_t step, bool automatic = false) {
  World world(seed, count, kPeers);
  std::vector<std::uint32_t> members(count);
  std::iota(members.begin(), members.end(), 0u);
  SharedGroup group(world, {.number = 1}, members, {.confirms = true, .small_bytes = 1000});
  group.config.block_bytes = kBlock;
  const relay::AutoConfig chosen{.fixed = {.block_bytes = kBlock}};
  if (automatic) group.config.automatic = chosen;
  group.make_all();
  const auto all = relay::auto_algorithms(chosen, {});
  for (const std::uint64_t bytes : {blocks * kBlock - 5, std::uint64_t{77}, blocks * kBlock}) {
    const relay::MessagePlan plan{all[world.simulation.random().below(all.size())], kBlock};
    group.send(bytes, automatic ? std::optional(plan) : std::nullopt);
  }
  const auto reached = [&] { return steps_of(*group.ends[victim]) >= step; };
  if (!world.simulation.run_until(reached, Time{} + seconds(1))) return false;
  world.simulation.kill(world.processes[victim]->process());
  const Time killed = world.simulation.now();

  // Returns true if the root has died and none of its packets has reached a member. Then no message has
  // started at another member.
  const auto nobody_knows = [&] {
    for (std::size_t rank = 0; rank < count; ++rank)
      if (rank != victim && group.ends[rank]->group().is_busy()) return false;
    return victim == 0;
  };
  const auto is_settled = [&](std::size_t rank) {
    const GroupEnd& end = *group.ends[rank];
    return rank == victim || end.failures == 1 || end.stable_count == group.sent;
  };
  const auto all_settled = [&] {
    for (std::size_t rank = 0; rank < count; ++rank)
      if (!is_settled(rank)) return false;
    return true;
  };
  world.run_for(milliseconds(10));  // The packets in flight arrive in this time.
  if (nobody_knows()) return true;
  BOOST_TEST(world.simulation.run_until(all_settled, killed + seconds(1)),
             count << " members, " << blocks << " blocks, " << victim << " killed at step " << step);
  std::vector<std::uint64_t> delivered;
  for (const auto& end : group.ends) delivered.push_back(end->group().delivered());
  world.run_for(seconds(3));
  for (std::size_t rank = 0; rank < count; ++rank) {
    GroupEnd& end = *group.ends[rank];
    if (rank == victim || end.failures == 0) continue;
    BOOST_TEST((end.failed_peer == Rank{static_cast<std::uint32_t>(victim)}));
    BOOST_TEST(end.failures == 1);
    BOOST_TEST(end.releases == 1);
    // Nothing may be delivered after failed().
    BOOST_TEST(end.group().delivered() == delivered[rank]);
    if (rank == 0) continue;
    std::vector<std::uint64_t> in_order(delivered[rank]);
    std::iota(in_order.begin(), in_order.end(), std::uint64_t{0});
    BOOST_TEST((end.delivered_messages == in_order));
    for (const std::uint64_t message : in_order) {
      BOOST_TEST(std::ranges::equal(end.bytes(message), group.ends[0]->bytes(message)));
      BOOST_TEST(end.guard_is_intact(message));
    }
  }
  return true;
}

}  // namespace

BOOST_DATA_TEST_CASE(
    whoever_dies_at_whatever_step_all_others_know_it_within_a_second_and_lose_nothing_delivered,
    bdata::make({2, 3, 4, 5, 7, 8, 9, 12, 16}), members) {
  const auto count = static_cast<std::size_t>(members);
  if (std::getenv("RDMC_EVERY_STEP") != nullptr) {
    for (std::uint64_t blocks = 1; blocks <= 8; ++blocks) {
      for (std::size_t victim = 0; victim < count; ++victim) {
        for (std::uint64_t step = 0; kill_at(1, count, blocks, victim, step); ++step) {
        }
      }
    }
    return;
  }
  Random random(static_cast<std::uint64_t>(members));
  for (int sample = 0; sample < 21; ++sample) {
    const std::uint64_t blocks = random.between(1, 8);
    const auto victim = static_cast<std::size_t>(random.below(count));
    kill_at(static_cast<std::uint64_t>(sample), count, blocks, victim, random.below(4 * blocks + 4),
            sample % 3 == 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
