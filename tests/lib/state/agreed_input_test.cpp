// Agreed input and output commit, with replicas that die, are left out, join and load. See world.hpp.
#include "lib/state/agreed_input.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/lib/state/world.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(agreed_input_test)

using namespace rdmc;
using namespace rdmc::state;
using namespace rdmc::state::testing;

namespace {

/// Checks what must hold when nothing is left to do.
void check(World& world) {
  std::optional<std::vector<Applied>> first;
  std::set<std::string> texts;
  for (const MemberId id : world.group()) {
    const Process& one = world[id];
    if (!one.is_alive || one.has_ended) continue;
    if (!first) first = one.state;
    BOOST_REQUIRE(one.state == *first);
  }
  BOOST_REQUIRE(first.has_value());
  std::map<std::string, std::uint64_t> last;
  for (const Applied& one : *first) {
    BOOST_REQUIRE_MESSAGE(texts.insert(one.text).second, one.text << " was applied twice");
    const auto colon = one.text.find(':');
    BOOST_REQUIRE_EQUAL(++last[one.text.substr(0, colon)], std::stoull(one.text.substr(colon + 1)));
  }
  for (const std::string& text : world.answered)
    BOOST_REQUIRE_MESSAGE(texts.contains(text), text << " was answered and is lost");
  for (const MemberId id : world.group()) {
    const Process& one = world[id];
    if (one.is_alive && !one.has_ended) BOOST_REQUIRE_EQUAL(world.applied_of(one, id), one.submitted);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_replica_gets_every_event_once_and_in_the_same_order) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed, 1 + seed % 5, 1);
    for (int i = 0; i < 400; ++i) {
      world.submit(world.group()[world.below(world.group().size())]);
      for (auto steps = world.below(10); steps > 0; --steps) world.step();
    }
    world.settle();
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
      World world(seed, 2 + seed % 4, seed % 3 == 0 ? 1 : 2);
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
        if (world[any].is_alive && !world[any].has_ended) world.submit(any);
        for (auto steps = world.below(60); steps > 0; --steps) world.step();
      }
      if (world.is_lost()) {
        ++lost;
        continue;
      }
      world.settle();
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
  BOOST_TEST(begun_anew > 5u);
}

BOOST_AUTO_TEST_SUITE_END()
