// Kills any member at any step of any message. Then kills one or two more members while the survivors
// recover. The survivors must continue with the same messages in the same order. They must lose no message
// that a survivor has delivered, and must never hang. The tests run a sample of the cases. With
// RDMC_EVERY_STEP=1 they try every member at every step, and 3000 cases with several deaths.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <numeric>

#include "tests/lib/group/survivors.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(continue_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

/// The victim and the step at which it is killed. A step is a turn of the victim's process.
struct Death {
  std::size_t victim = 0;
  std::uint64_t step = 0;
};

// The number of partial messages that failures have reported in all runs.
int partial_messages = 0;

std::uint64_t turns_of(Survivors& group, std::size_t victim) {
  return group.world.simulation.turns(group.members[victim].process->process());
}

/// Checks that every member has the messages that were sent, in order and without duplicates.
void check(Survivors& group, const std::string& what) {
  for (const Member& member : group.members) {
    const auto i = static_cast<std::size_t>(&member - group.members.data());
    BOOST_TEST(member.in_order, what);
    BOOST_TEST(member.intact, what);
    const std::size_t last = std::min<std::size_t>({member.copies.size(), member.kept, group.sent.size()});
    for (std::size_t m = 0; m < last; ++m)
      BOOST_TEST((member.copies[m] == group.sent[m]), what << ", member " << i << ", message " << m);
  }
  BOOST_TEST(!group.wrongly_blamed, what);
}

/// Checks that every live member has all messages.
void check_complete(Survivors& group, const std::string& what) {
  for (const Member& member : group.members) {
    if (!member.is_alive) continue;
    const bool is_first = &member == group.members.data();
    BOOST_TEST(member.copies.size() == (is_first ? 0 : member.leads_from.value_or(group.sent.size())), what);
    BOOST_TEST(member.stable == group.sent.size(), what);
    BOOST_TEST(member.reusable == group.sent.size(), what);
  }
}

/// Returns false if the first victim never reaches its step.
bool die(std::uint64_t seed, std::size_t count, std::uint64_t blocks, const std::vector<Death>& deaths) {
  std::string what =
      std::to_string(count) + " members, " + std::to_string(blocks) + " blocks, seed " + std::to_string(seed);
  for (const Death& death : deaths)
    what += ", " + std::to_string(death.victim) + " killed at " + std::to_string(death.step);
  using relay::Algorithm;
  Survivors group(seed, count, seed % 2 == 0,
                  seed % 4 == 1 ? std::nullopt : std::optional(Algorithm::binomial_pipeline));
  sim::Simulation& simulation = group.world.simulation;
  for (const std::uint64_t bytes :
       {blocks * kBlock - 5, std::uint64_t{77}, std::uint64_t{0}, blocks * kBlock})
    group.send(bytes);
  for (const Death& death : deaths) {
    const bool is_first = &death == deaths.data();
    const std::uint64_t begin = is_first ? 0 : turns_of(group, death.victim);
    const auto reached = [&] { return turns_of(group, death.victim) >= begin + death.step; };
    if (!simulation.run_until(reached, simulation.now() + milliseconds(is_first ? 100 : 1500)) && is_first)
      return false;
    group.kill(death.victim);
  }
  const Time killed = simulation.now();
  const auto is_settled = [&] { return group.is_settled(); };
  simulation.run_until(killed + milliseconds(1500));  // By then, all members know of the death.
  const bool settled = simulation.run_until(is_settled, killed + seconds(6));
  BOOST_TEST(settled, what << ": not settled");
  check(group, what);
  partial_messages += group.partial_messages;
  // If the root is dead and the members are settled, no member had messages in progress. So no member has
  // noticed the death.
  if (!settled || !group.members[group.root()].is_alive) return true;
  // Checks that the survivors continue: all of them must get the next messages of the root.
  for (const std::uint64_t bytes : {std::uint64_t{5}, 2 * kBlock + 1ul}) group.send(bytes);
  BOOST_TEST(simulation.run_until(is_settled, simulation.now() + seconds(8)), what << ": does not go on");
  check(group, what);
  check_complete(group, what);
  return true;
}

}  // namespace

BOOST_DATA_TEST_CASE(whoever_dies_at_whatever_step_the_survivors_go_on_and_lose_nothing, bdata::xrange(2, 17),
                     members) {
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
  for (std::uint64_t sample = 0; sample < all_or(7u, 2u); ++sample) {
    const std::uint64_t blocks = random.between(1, 8);
    const auto victim = static_cast<std::size_t>(sample % 3 == 0 ? 0 : random.below(count));
    die(sample, count, blocks, {{victim, random.below(80)}});
  }
}

BOOST_DATA_TEST_CASE(more_may_die_while_they_get_over_it, bdata::xrange(3, 9), members) {
  const auto count = static_cast<std::size_t>(members);
  const bool every = std::getenv("RDMC_EVERY_STEP") != nullptr;
  Random random(static_cast<std::uint64_t>(members));
  for (std::uint64_t sample = 0; sample < (every ? 3000u : all_or(20u, 6u)); ++sample) {
    std::vector<std::size_t> victims(count);
    std::iota(victims.begin(), victims.end(), std::size_t{0});
    const std::size_t most = members > 3 && sample % 3 == 0 ? 3 : 2;
    std::vector<Death> deaths;
    while (deaths.size() < most) {
      const auto next = victims.begin() + static_cast<std::ptrdiff_t>(random.below(victims.size()));
      deaths.push_back({*next, random.below(80)});
      victims.erase(next);
    }
    die(sample, count, random.between(1, 5), deaths);
  }
  BOOST_TEST(partial_messages > 0);
}

namespace {

/// The root dies at `step`. The next root dies after it has sent a new message. Meanwhile the member
/// `unaware` has some blocks of an older message with the same number, which the recovery has made void. It
/// does not learn that the group continues under the next root. Returns true if this case has occurred.
bool die_unheard(std::uint64_t step, std::size_t unaware) {
  const std::string what = "killed at " + std::to_string(step) + ", unaware: " + std::to_string(unaware);
  Survivors group(step, 4, true);
  sim::Simulation& simulation = group.world.simulation;
  const auto host = [&](std::size_t member) {
    return simulation.host(group.members[member].process->process());
  };
  for (int i = 0; i < 30; ++i) group.send(kMostBytes);
  simulation.run_until([&] { return turns_of(group, 0) >= step; }, simulation.now() + milliseconds(100));
  group.kill(0);
  const Time killed = simulation.now();
  group.before_sending = [&](std::size_t root) {
    if (root != 1 || simulation.state(group.members[1].process->process()) == sim::ProcessState::killed)
      return;
    group.world.network.block(host(1), host(unaware));
    simulation.at(simulation.now() + milliseconds(2), [&] {
      group.kill(1);
      group.world.network.unblock(host(1), host(unaware));
    });
  };
  if (!simulation.run_until([&] { return !group.members[1].is_alive; }, killed + seconds(2))) return false;
  const auto& told = group.members[unaware].failures;
  const auto first_void = group.members[1].leads_from;
  const bool had_begun = first_void && !told.empty() && group.members[unaware].continued == 0 &&
                         std::ranges::count(told[0].partial, *first_void, &PartialMessage::message) == 1;
  BOOST_TEST(simulation.run_until([&] { return group.is_settled(); }, simulation.now() + seconds(8)),
             what << ": not settled");
  check(group, what);
  return had_begun;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_void_is_forgotten_before_its_number_is_anybody_elses) {
  int times = 0;
  for (std::uint64_t step = 4; step < 100; step += all_or(4u, 8u))
    for (const std::size_t unaware : {2, 3}) times += die_unheard(step, unaware) ? 1 : 0;
  BOOST_TEST(times > all_or(5, 2), times << " times");
}

BOOST_AUTO_TEST_CASE(a_representative_that_dies_is_replaced_and_its_host_gets_little_twice) {
  // The victim is the first member on the second host.
  constexpr std::size_t kHosts = 3, kPerHost = 3, kVictim = kPerHost;
  const Place shared = [](sim::Network& network, std::size_t process) {
    return process % kPerHost == 0 ? network.add_host({})
                                   : sim::HostId{static_cast<std::uint32_t>(process / kPerHost)};
  };
  for (std::uint64_t step = 20; step <= 140; step += all_or(40u, 80u)) {
    Survivors group(step, kHosts * kPerHost, true, relay::Algorithm::host_pipeline, shared);
    sim::Simulation& simulation = group.world.simulation;
    const auto entered = [&] {
      return static_cast<double>(group.world.network.received_bytes(sim::HostId{1})) / (40 * kMostBytes);
    };
    const auto send_many = [&] {
      for (int i = 0; i < 40; ++i) group.send(kMostBytes);
    };
    double before = entered();
    send_many();
    const auto reached = [&] { return turns_of(group, kVictim) >= step; };
    BOOST_TEST_REQUIRE(simulation.run_until(reached, simulation.now() + milliseconds(100)));
    group.kill(kVictim);
    const auto goes_on = [&] { return group.is_settled() && group.members[0].continued == 1; };
    BOOST_TEST_REQUIRE(simulation.run_until(goes_on, simulation.now() + seconds(8)), "killed at " << step);
    BOOST_TEST((entered() - before > 1.0 && entered() - before < 1.6), step << ": " << entered() - before);
    before = entered();
    send_many();
    BOOST_TEST(simulation.run_until([&] { return group.is_settled(); }, simulation.now() + seconds(8)));
    BOOST_TEST((entered() - before > 1.0 && entered() - before < 1.2), step << ": " << entered() - before);
    check(group, "a representative killed at " + std::to_string(step));
    check_complete(group, "a representative killed at " + std::to_string(step));
  }
}

// The application uses the default options.
BOOST_AUTO_TEST_CASE(an_application_that_is_slow_for_minutes_holds_the_root_back_and_loses_nothing) {
  constexpr std::uint64_t kFew = 20;
  Survivors group(5, 3, true);
  Member &root = group.members[0], &slow = group.members[2];
  // This member has not posted any buffer yet.
  slow.gives = Gives::one_buffer;
  for (std::uint64_t i = 0; i < kFew; ++i) group.send(i % 2 == 0 ? 300 : 2 * kBlock);
  group.world.run_for(seconds(all_or(300, 30)));
  for (const Member& member : group.members) BOOST_TEST(member.failures.empty());
  BOOST_TEST(slow.delivered.empty());
  BOOST_REQUIRE(root.held_up_by.has_value());
  BOOST_TEST((*root.held_up_by == std::pair(NodeId{2}, std::uint64_t{0})));
  // The root may send until its send queue is full.
  const std::vector<std::byte> one(1);
  std::uint64_t queued = kFew;
  Result<std::uint64_t> sent = queued;
  for (; (sent = root.process->group->send(one)) && queued <= NodeGroup::kMostQueued; ++queued) {
    group.sent.push_back(one);
    if (queued % 1000 == 0) root.process->group->run();
  }
  BOOST_TEST(queued == NodeGroup::kMostQueued);
  BOOST_REQUIRE(!sent);
  BOOST_TEST((sent.error().code == Errc::would_block));
  slow.post();  // From here on, this member posts another buffer after each message.
  root.process->wake();
  const auto has_all = [&] {
    return slow.delivered.size() == group.sent.size() && root.reusable == group.sent.size();
  };
  BOOST_TEST(group.world.simulation.run_until(has_all, group.world.simulation.now() + seconds(600)));
  BOOST_TEST(!root.held_up_by.has_value());
  BOOST_TEST(root.process->group->send(one).has_value());
  check(group, "slow");
}

BOOST_AUTO_TEST_SUITE_END()
