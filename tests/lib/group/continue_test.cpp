// Any member killed at any step of any message, and another while the survivors get over it: they go on with
// the same messages in the same order, lose nothing that anybody has delivered, and never hang.
// RDMC_EVERY_STEP=1 tries every member at every step instead of a sample.
#define BOOST_TEST_MODULE group_continue
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "tests/lib/group/survivors.hpp"

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

/// A step is a turn of the process.
struct Death {
  std::size_t victim = 0;
  std::uint64_t step = 0;
};

int partial_messages = 0;  // that failures told of, over all runs

std::uint64_t turns_of(Survivors& group, std::size_t victim) {
  return group.world.simulation.turns(group.members[victim].process->process());
}

void check(Survivors& group, const std::string& what) {
  std::optional<std::uint64_t> delivered;
  for (const Member& member : group.members) {
    const auto i = static_cast<std::size_t>(&member - group.members.data());
    BOOST_TEST(member.in_order, what);
    BOOST_TEST(member.intact, what);
    // What only the dead have had is not the group's any more.
    const std::size_t last =
        member.is_alive ? member.copies.size() : *group.members[group.root()].next_message;
    for (std::size_t m = 0; m < std::min(last, member.copies.size()); ++m)
      BOOST_TEST((member.copies[m] == group.sent[m]), what << ", member " << i << ", message " << m);
    if (!member.is_alive || i == 0) continue;
    if (!delivered) delivered = group.sent.size();
    BOOST_TEST(member.copies.size() == (i == group.root() ? *member.next_message : *delivered), what);
    BOOST_TEST(member.stable == *delivered, what);
    BOOST_TEST(member.reusable == *delivered, what);
  }
  BOOST_TEST(!group.wrongly_blamed, what);
}

/// False: the first victim never came so far.
bool die(std::uint64_t seed, std::size_t count, std::uint64_t blocks, const std::vector<Death>& deaths) {
  std::string what =
      std::to_string(count) + " members, " + std::to_string(blocks) + " blocks, seed " + std::to_string(seed);
  for (const Death& death : deaths)
    what += ", " + std::to_string(death.victim) + " killed at " + std::to_string(death.step);
  Survivors group(seed, count, seed % 2 == 0);
  sim::Simulation& simulation = group.world.simulation;
  for (const std::uint64_t bytes :
       {blocks * kBlock - 5, std::uint64_t{77}, std::uint64_t{0}, blocks * kBlock})
    group.send(bytes);
  std::uint64_t begin = 0;
  for (const Death& death : deaths) {
    const auto reached = [&] { return turns_of(group, death.victim) >= begin + death.step; };
    const bool is_first = &death == deaths.data();
    if (!simulation.run_until(reached, simulation.now() + milliseconds(is_first ? 100 : 1500)) && is_first)
      return false;
    group.kill(death.victim);
    if (is_first && deaths.size() > 1) begin = turns_of(group, deaths[1].victim);
  }
  const Time killed = simulation.now();
  const auto is_settled = [&] { return group.is_settled(); };
  simulation.run_until(killed + milliseconds(1500));  // by then everybody knows
  BOOST_TEST(simulation.run_until(is_settled, killed + seconds(6)), what << ": not settled");
  // They go on: what the root sends now, all get.
  const std::size_t root = group.root();
  const Member& leader = group.members[root];
  if (leader.continued == 0 || !leader.is_alive) return true;  // nobody had anything to notice
  if (root != 0) group.sent.resize(*leader.next_message);
  for (const std::uint64_t bytes : {std::uint64_t{5}, 2 * kBlock + 1ul}) group.send(bytes);
  const auto all_have_it = [&] {
    return std::ranges::all_of(group.members,
                               [&](const Member& m) { return !m.is_alive || m.stable == group.sent.size(); });
  };
  BOOST_TEST(simulation.run_until(all_have_it, simulation.now() + seconds(5)), what << ": does not go on");
  check(group, what);
  partial_messages += group.partial_messages;
  return true;
}

}  // namespace

BOOST_DATA_TEST_CASE(whoever_dies_at_whatever_step_the_survivors_go_on_and_lose_nothing,
                     bdata::make({2, 3, 4, 5, 7, 8, 9, 12, 16}), members) {
  const auto count = static_cast<std::size_t>(members);
  if (std::getenv("RDMC_EVERY_STEP") != nullptr) {
    for (std::uint64_t blocks = 1; blocks <= 8; ++blocks) {
      for (std::size_t victim = 0; victim < count; ++victim) {
        for (std::uint64_t step = 0; die(step, count, blocks, {{victim, step}}); ++step) {
        }
      }
    }
    return;
  }
  Random random(static_cast<std::uint64_t>(members));
  for (std::uint64_t sample = 0; sample < 10; ++sample) {
    const std::uint64_t blocks = random.between(1, 8);
    const auto victim = static_cast<std::size_t>(sample % 3 == 0 ? 0 : random.below(count));
    die(sample, count, blocks, {{victim, random.below(80)}});
  }
}

BOOST_DATA_TEST_CASE(another_one_may_die_while_they_get_over_it, bdata::make({3, 4, 5, 6}), members) {
  const auto count = static_cast<std::size_t>(members);
  const bool every = std::getenv("RDMC_EVERY_STEP") != nullptr;
  Random random(static_cast<std::uint64_t>(members));
  for (std::uint64_t sample = 0; sample < (every ? 3000 : 20); ++sample) {
    const auto first = static_cast<std::size_t>(random.below(count));
    const std::size_t second = (first + 1 + static_cast<std::size_t>(random.below(count - 1))) % count;
    die(sample, count, random.between(1, 5), {{first, random.below(60)}, {second, random.below(80)}});
  }
  BOOST_TEST(partial_messages > 0);
}
