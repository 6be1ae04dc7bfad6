// Agreed input and output commit, with replicas that die, are left out, join and load. See state_world.hpp.
#include "lib/state/agreed_input.hpp"

#include <boost/test/unit_test.hpp>

#include "apps/sim/state_world.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(agreed_input_test)

using namespace rdmc;
using namespace rdmc::state;
using namespace rdmc::sim_app;

namespace {

void begin(StateWorld& world, std::size_t replicas) {
  for (std::size_t i = 0; i < replicas; ++i) world.add();
  world.start();
}

/// Submits an event of any length.
void submit(StateWorld& world, MemberId id) {
  world[id].submit(Bytes(world.chance(20) ? 40'000 : 2));
}

/// Runs until nothing is left to do. Enough processes join for that.
void settle(StateWorld& world) {
  world.repair();
  while (!world.has_enough()) {
    world.join();
    world.repair();
  }
  world.settle();
}

void check_violations(const StateWorld& world) {
  BOOST_REQUIRE_MESSAGE(world.violations.empty(), world.violations.front());
}

/// Checks what must hold when nothing is left to do.
void check(StateWorld& world) {
  check_violations(world);
  std::optional<std::vector<AppliedEvent>> first;
  std::set<EventId> applied;
  for (const MemberId id : world.group()) {
    const StateProcess& one = world[id];
    if (!one.is_alive || one.has_ended) continue;
    BOOST_REQUIRE(!one.status.awaits_earlier_leases);
    if (!first) first = one.applied;
    BOOST_REQUIRE(one.applied == *first);
  }
  BOOST_REQUIRE(first.has_value());
  std::map<MemberId, std::uint64_t> last;
  for (const AppliedEvent& one : *first) {
    BOOST_REQUIRE_MESSAGE(applied.insert(one.id).second, "an event was applied twice");
    BOOST_REQUIRE_EQUAL(++last[one.id.from], one.id.number);
  }
  for (const EventId& id : world.answered)
    BOOST_REQUIRE_MESSAGE(applied.contains(id), "an event was answered and is lost");
  for (const MemberId id : world.group()) {
    const StateProcess& one = world[id];
    if (one.is_alive && !one.has_ended) BOOST_REQUIRE_EQUAL(world.applied_of(one, id), one.submitted);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_replica_gets_every_event_once_and_in_the_same_order) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    StateWorld world(seed, 1);
    begin(world, 1 + seed % 5);
    for (int i = 0; i < 400; ++i) {
      submit(world, world.group()[world.below(world.group().size())]);
      for (auto steps = world.below(10); steps > 0; --steps) world.step();
    }
    settle(world);
    check(world);
    BOOST_REQUIRE_EQUAL(world.answered.size(), 400u);
  }
}

BOOST_AUTO_TEST_CASE(nothing_that_was_answered_is_lost_whoever_dies_or_is_left_out) {
  std::uint64_t deaths = 0, left_out = 0, transfers = 0, failed = 0, takeovers = 0, removals = 0, lost = 0,
                begun_anew = 0;
  const std::uint64_t first = from_environment("RDMC_FIRST_SEED", 1);
  for (std::uint64_t seed = first; seed < first + from_environment("RDMC_WORLDS", all_or(2000, 60)); ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      StateWorld world(seed, seed % 3 == 0 ? 1 : 2);
      begin(world, 2 + seed % 4);
      for (int i = 0; i < 150; ++i) {
        const auto& group = world.group();
        const MemberId any = group[world.below(group.size())];
        const bool has_spare = world.complete() > 1;
        const bool may_lose = seed % 2 == 0 && world.chance(4) && world.has_another(any);
        if (world.chance(12) && (has_spare || may_lose)) world.kill(any);
        if (world.chance(25) && has_spare) world.leave_out(any);
        if (world.chance(15) && world.processes.size() < 12) world.join();
        if (world.chance(6)) world.repair();
        if (seed % 2 == 0) world.begin_anew();
        if (world[any].is_alive && !world[any].has_ended) submit(world, any);
        for (auto steps = world.below(60); steps > 0; --steps) world.step();
      }
      if (world.is_lost()) {
        ++lost;
        continue;
      }
      check_violations(world);
      settle(world);
      check_violations(world);
      if (world.is_lost()) {
        ++lost;
        continue;
      }
      check(world);
      deaths += world.deaths;
      left_out += world.left_out;
      transfers += world.transfers;
      failed += world.failed_transfers;
      takeovers += world.takeovers;
      removals += world.removals;
      begun_anew += world.begun_anew;
    }
  }
  BOOST_TEST_MESSAGE(deaths << " deaths, " << left_out << " left out, " << transfers << " transfers, "
                            << failed << " failed transfers, " << takeovers << " take-overs, " << removals
                            << " removals, " << begun_anew << " begun anew, " << lost << " worlds lost");
  BOOST_TEST(deaths > 100u);
  BOOST_TEST(left_out > 100u);
  BOOST_TEST(transfers > 100u);
  BOOST_TEST(failed > 10u);
  BOOST_TEST(takeovers > 100u);
  BOOST_TEST(removals > 20u);
  BOOST_TEST(begun_anew > all_or(50U, 0U));
}

// A machine is a process and, after its death, the process that was started again with its disk.
BOOST_AUTO_TEST_CASE(what_was_on_disks_survives_the_death_of_all) {
  std::uint64_t restarts = 0, begun = 0, wiped = 0, cuts = 0, answered = 0;
  const std::uint64_t first = from_environment("RDMC_FIRST_SEED", 1);
  for (std::uint64_t seed = first; seed < first + from_environment("RDMC_WORLDS", all_or(2000, 40)); ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const std::size_t machines = 2 + seed % 4, least = machines / 2 + 1;
      StateWorld world(seed, least, Disks::awaited, machines);
      begin(world, machines);
      for (int i = 0; i < 150; ++i) {
        std::vector<MemberId> now, dead;
        for (const auto& one : world.processes) {
          if (world.is_replaced(one->member)) continue;
          (one->is_alive && !one->has_ended ? now : dead).push_back(one->member);
        }
        if (world.chance(40)) {
          ++cuts;
          for (const MemberId id : now) world.kill(id);
          dead.insert(dead.end(), now.begin(), now.end());
        } else if (!now.empty() && world.chance(10)) {
          world.kill(now[world.below(now.size())]);
        }
        const auto is_empty = [&](const auto& one) {
          return !world.is_replaced(one->member) && one->disk.stored.position == 0;
        };
        if (!dead.empty() && world.chance(10) &&
            static_cast<std::size_t>(std::ranges::count_if(world.processes, is_empty)) + 1 < least) {
          world.wipe(dead[world.below(dead.size())]);
          ++wiped;
        }
        if (!dead.empty() && world.chance(3))
          world.restart(dead[world.below(dead.size())]).clock_ahead =
              static_cast<std::int64_t>(world.below(2'000'000)) - 1'000'000;
        if (world.chance(25) && world.complete() > 1)
          world.leave_out(world.group()[world.below(world.group().size())]);
        if (world.chance(6)) world.repair();
        // Also one that was left out and does not know it.
        if (!now.empty()) {
          const MemberId any = now[world.below(now.size())];
          if (world[any].is_alive && !world[any].has_ended) submit(world, any);
        }
        for (auto steps = world.below(100); steps > 0; --steps) world.step();
        check_violations(world);
      }
      world.transfers_fail_one_in = 0;
      // A replica whose transfer fails because its donor dies begins once more.
      const auto is_out = [&](const auto& one) {
        return !world.is_replaced(one->member) &&
               (!one->is_alive || one->has_ended || !world.is_in_group(one->member));
      };
      const auto is_unready = [&](const auto& one) {
        return !world.is_replaced(one->member) && (is_out(one) || one->load || !one->status.is_complete);
      };
      for (int rounds = 0; rounds < 50 && std::ranges::any_of(world.processes, is_unready); ++rounds) {
        const std::size_t so_far = world.processes.size();
        for (std::size_t i = 0; i < so_far; ++i)
          if (is_out(world.processes[i])) world.restart(world.processes[i]->member);
        world.repair();
        for (int steps = 0; steps < 1000; ++steps) world.step();
      }
      world.repair();
      world.settle();
      check(world);
      restarts += world.restarts;
      begun += world.begun_from_disks;
      answered += world.answered.size();
    }
  }
  BOOST_TEST_MESSAGE(restarts << " restarts, " << cuts << " power cuts, " << wiped << " wiped disks, "
                              << begun << " times begun from disks, " << answered << " answered events");
  BOOST_TEST(begun > 50u);
  BOOST_TEST(wiped > 5u);
  BOOST_TEST(answered > all_or(1000U, 200U));
}

BOOST_AUTO_TEST_SUITE_END()
