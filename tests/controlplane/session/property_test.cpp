// Runs many worlds with different seeds, with faults of every kind in every phase. Checks these properties:
// - The job ends in limited time.
// - Every living process gets one outcome.
// - No process starts an epoch twice. All processes have the same list of the members of an epoch.
// - All others learn the names of the lost members.
// - An epoch ends in all processes within 1 s of a failure.
// - A participant without a fault gets all bytes.
// - The seed determines the whole run.
// - If the root dies, the survivors continue with the blocks that they have together.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>

#include "tests/controlplane/session/world.hpp"
#include "tests/sampled.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(property_test)
namespace {

const std::uint64_t kWorlds = all_or(1000, 100);

enum class Fault : std::uint8_t {
  kill,
  silence,
  cut,
  short_pause,
  long_pause,
  full_disk,
  mute,
  wrong_digest,
  broken_link,
  garbage,
  count
};

constexpr const char* kMoments[] = {"JobOffered", "FormRequested", "PeersReady",
                                    "StartData",  "EndData",       "CommitRequested"};

/// The faults of one world, and the data that the checks need.
struct Plan {
  /// Participants that may fail.
  std::set<std::size_t> faulty;
  /// Participants that are stopped for a short time.
  std::set<std::size_t> stopped;
  /// The participants with a fault about which no message informs the session. The value is the time of the
  /// fault.
  std::map<std::size_t, Time> sudden;
  bool interrupted = false, root_dies = false;
  Time died{};
  /// Participants without a fault that took part in the job when the root died.
  std::set<std::size_t> survivors;
  /// The blocks that the survivors have together.
  std::uint32_t held = 0;
  std::map<Fault, int> struck;
};

Options draw_options(std::uint64_t seed) {
  Random random(seed);
  Options options{.participants = random.between(1, 16), .seed = seed};
  options.max_delay = milliseconds(static_cast<std::int64_t>(random.between(1, 20)));
  options.data_time = milliseconds(static_cast<std::int64_t>(random.between(50, 1500)));
  if (random.below(3) == 0) options.lags_per_million = 100'000;
  return options;
}

void plan_fault(World& world, Plan& plan, Random& random) {
  const auto fault = static_cast<Fault>(random.below(static_cast<std::uint64_t>(Fault::count)));
  const std::size_t victim = random.between(1, world.size() - 1);
  const std::string moment = kMoments[random.below(std::size(kMoments))];
  const Duration after = microseconds(static_cast<std::int64_t>(random.below(60'000)));
  // A second short stop of the same participant can make the total stop too long.
  if (fault != Fault::short_pause || !plan.stopped.insert(victim).second) plan.faulty.insert(victim);
  const auto strike = [&](auto action) {
    world.on(
        victim, moment, [&plan, fault, action] { ++plan.struck[fault], action(); }, 1, after);
  };
  const auto suddenly = [&](auto action) {
    strike([&world, &plan, victim, action] {
      if (world.alive(victim)) plan.sudden.emplace(victim, world.now());
      action();
    });
  };
  switch (fault) {
    case Fault::kill: return suddenly([&world, victim] { world.kill(victim); });
    case Fault::silence: return suddenly([&world, victim] { world.freeze(victim); });
    case Fault::cut: return suddenly([&world, victim] { world.cut(victim); });
    case Fault::short_pause: return strike([&world, victim] { world.pause(victim, milliseconds(300)); });
    case Fault::long_pause: return suddenly([&world, victim] { world.pause(victim, milliseconds(1500)); });
    case Fault::full_disk: world.behaviour(victim).fails_at = moment; break;
    case Fault::mute: world.behaviour(victim).mute_from = moment; break;
    case Fault::wrong_digest: world.behaviour(victim).wrong_digest = true; break;
    case Fault::broken_link: {
      const std::size_t other = random.below(world.size());
      if (other == victim) return;
      if (other != 0) plan.faulty.insert(other);
      return strike([&world, victim, other] { world.break_data_link(victim, other); });
    }
    case Fault::garbage: {
      Bytes bytes(random.between(1, 40));
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(256));
      return strike([&world, victim, bytes] { world.inject(victim, bytes); });
    }
    case Fault::count: return;
  }
  ++plan.struck[fault];
}

std::uint64_t run_world(std::uint64_t seed, Plan& plan, std::unique_ptr<World>& world) {
  world = std::make_unique<World>(draw_options(seed));
  Random random(seed ^ 0xFA17);
  for (std::uint64_t faults = random.below(5); faults > 0; --faults) plan_fault(*world, plan, random);
  const Time when = Time{} + milliseconds(static_cast<std::int64_t>(random.below(2500)));
  if (random.chance(60'000)) {
    plan.interrupted = true;
    world->at(when, [&w = *world] { w.interrupt({Errc::cancelled, "interrupted"}); });
  } else if (random.chance(300'000)) {
    plan.root_dies = true;
    const auto how = random.below(3);
    world->at(when, [&w = *world, &plan, how] {
      plan.died = w.now();
      plan.sudden.emplace(0, w.now());
      for (std::size_t i = 1; i < w.size(); ++i) {
        if (!w.takes_part(i) || plan.faulty.contains(i)) continue;
        plan.survivors.insert(i);
        plan.held |= w.held(i);
      }
      if (how == 0) w.kill(0);
      if (how == 1) w.freeze(0);
      if (how == 2) w.pause(0, milliseconds(1500));
    });
  }
  // Each fault costs at most one of the waits in Timing. The longest of these waits is the wait for a commit.
  const bool ended =
      world->run(Time{} + Timing{}.commit_timeout * static_cast<std::int64_t>(world->size() + 1));
  BOOST_TEST(ended, "the job ends");
  return world->trace_hash();
}

void check_outcomes(const World& world, const Plan& plan) {
  const bool unharmed = !plan.interrupted && !plan.root_dies;
  for (std::size_t i = 1; i < world.size(); ++i) {
    const bool own = world.count(i, "Finished") == 1;
    const bool stopped_or_dead = plan.sudden.contains(i);
    BOOST_TEST((own || stopped_or_dead), "everyone alive gets one outcome");
    BOOST_TEST(world.count(i, "Finished") <= 1);
    if (!plan.faulty.contains(i))
      BOOST_TEST(world.participant(i).counters().protocol_errors == 0u, "nobody is told what is out of turn");
    const auto heard = std::ranges::count_if(world.records(), [&](const Record& record) {
      return record.event == "MemberFinished" && record.subject == World::name_of(i);
    });
    BOOST_TEST((heard == 1 || (heard == 0 && plan.root_dies)), "the root hears one outcome of everyone");
    if (!unharmed || plan.faulty.contains(i)) continue;
    BOOST_TEST((world.outcome(i)->status == Status::ok), "who had no fault gets the bytes");
    BOOST_TEST((world.own_outcome(i)->status == Status::ok), "and knows");
  }
}

void check_epochs(const World& world, const Plan& plan) {
  std::map<Epoch, std::vector<std::string>> members;
  for (const Record& record : world.records())
    if (record.process == 0 && record.event == "FormRequested") members[record.epoch] = record.members;
  std::set<std::pair<std::size_t, Epoch>> started;
  for (const Record& record : world.records()) {
    if (record.event == "StartData")
      BOOST_TEST(started.emplace(record.process, record.epoch).second, "one Start for one epoch");
    if (record.event == "FormRequested" && members.contains(record.epoch))
      BOOST_TEST(record.members == members[record.epoch], "one member list for one epoch");
  }
  if (plan.interrupted || plan.root_dies) return;

  const auto named = [&](std::size_t process, Epoch epoch, std::string_view event) {
    std::set<std::string> names;
    for (const Record& record : world.records())
      if (record.process == process && record.epoch == epoch && record.event == event)
        names.insert(record.failed.begin(), record.failed.end());
    return names;
  };
  for (const auto& [epoch, names] : members) {
    for (std::size_t i = 1; i < world.size(); ++i) {
      const bool member = std::ranges::find(names, World::name_of(i)) != names.end();
      if (!member || plan.faulty.contains(i)) continue;
      BOOST_TEST(named(i, epoch, "EndData") == named(0, epoch, "EndData"),
                 "the lost are named to all others");
      const bool goes_on = members.contains(Epoch{value_of(epoch) + 1}) &&
                           std::ranges::find(members[Epoch{value_of(epoch) + 1}], World::name_of(i)) !=
                               members[Epoch{value_of(epoch) + 1}].end();
      if (goes_on)
        BOOST_TEST(named(i, epoch, "AlsoFailed") == named(0, epoch, "AlsoFailed"), "the late ones too");
    }
  }
}

/// Checks that epochs end in time. If a member of a formed epoch is killed or becomes silent, all other
/// members without a fault must learn that the epoch has ended.
void check_promptness(const World& world, const Plan& plan) {
  for (const auto& [victim, when] : plan.sudden) {
    const Record *formed = nullptr, *ended = nullptr;
    for (const Record& record : world.records()) {
      if (record.process != 0 || record.at > when) continue;
      if (record.event == "FormRequested") formed = &record;
      if (record.event == "EndData") ended = &record;
    }
    if (formed == nullptr || (ended != nullptr && ended->epoch == formed->epoch)) continue;
    if (std::ranges::find(formed->members, World::name_of(victim)) == formed->members.end()) continue;
    for (const std::string& name : formed->members) {
      const std::size_t i = name == "root" ? 0 : std::stoul(name.substr(1));
      if (plan.faulty.contains(i) || i == victim || !world.alive(i)) continue;
      // The root was stopped and now runs again. Its stop may be the reason why the epoch ends.
      if (i == 0 && plan.root_dies) continue;
      const auto over = std::ranges::find_if(world.records(), [&](const Record& record) {
        const bool end = record.event == "EndData" && record.epoch == formed->epoch;
        return record.process == i && (end || record.event == "AbortRequested" || record.event == "Finished");
      });
      // The epoch has never ended for this member. check_outcomes() reports this.
      if (over == world.records().end()) continue;
      // If the process that had to end the epoch died shortly after the fault, the limit counts from this
      // death.
      const bool both = plan.root_dies && plan.died >= when && plan.died - when <= seconds(1);
      BOOST_TEST((over->at - (both ? plan.died : when) <= seconds(1)),
                 "an epoch ends everywhere within 1 s of a failure");
    }
  }
}

/// Checks the state after the root's death:
/// - If the survivors without a fault have all blocks together, all of them must get all blocks.
/// - If a block was lost with the root, none of them may get all blocks.
/// - Survivors that can reach each other must have the same outcome.
void check_recovery(const World& world, const Plan& plan) {
  for (const Record& record : world.records())
    BOOST_TEST(record.event != "BadSource", "a source has what it sends");
  if (!plan.root_dies) return;
  const auto is_ok = [&](std::size_t i) {
    return world.own_outcome(i) != nullptr && world.own_outcome(i)->status == Status::ok;
  };
  const bool someone = std::ranges::any_of(plan.survivors, is_ok);
  for (const std::size_t i : plan.survivors) {
    if (plan.held == kWhole) BOOST_TEST(is_ok(i), "h" << i << " gets what the survivors have together");
    BOOST_TEST(is_ok(i) == someone, "all survivors or none");
    if (is_ok(i) || plan.held == kWhole) continue;
    BOOST_TEST(world.own_outcome(i)->cause.what.contains("nobody alive"), world.own_outcome(i)->cause.what);
  }
}

BOOST_AUTO_TEST_CASE(every_job_ends_well_for_everyone_who_does) {
  std::map<Fault, std::uint64_t> struck;
  std::uint64_t epochs = 0, judgements = 0, late = 0;
  std::uint64_t rescues = 0, losses = 0, leads = 0, stood_down = 0, successor_epochs = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Plan plan;
      std::unique_ptr<World> world;
      run_world(seed, plan, world);
      check_outcomes(*world, plan);
      check_epochs(*world, plan);
      check_promptness(*world, plan);
      check_recovery(*world, plan);
      const bool rescued = plan.root_dies && plan.held == kWhole && !plan.survivors.empty();
      const bool lost = plan.root_dies && plan.held != kWhole && !plan.survivors.empty();
      rescues += rescued ? 1 : 0;
      losses += lost ? 1 : 0;
      for (std::size_t i = 1; i < world->size(); ++i) {
        leads += world->count(i, "LeadRequested");
        stood_down += world->count(i, "StoodDown");
        successor_epochs += world->count(i, "Lead:ParametersNeeded");
      }
      for (const auto& [fault, count] : plan.struck) struck[fault] += count;
      epochs += world->coordinator().counters().epochs;
      judgements += world->coordinator().counters().judgements;
      late += world->coordinator().counters().late_messages;
    }
  }
  // Every kind of fault must have occurred. Otherwise the checks prove little.
  for (int fault = 0; fault < static_cast<int>(Fault::count); ++fault)
    BOOST_TEST(struck[static_cast<Fault>(fault)] > kWorlds / 50);
  BOOST_TEST(epochs > kWorlds);
  BOOST_TEST(judgements > kWorlds / 40);
  BOOST_TEST(late > 0u);
  BOOST_TEST(rescues > kWorlds / 50);
  BOOST_TEST(losses > kWorlds / 50);
  BOOST_TEST(leads > rescues);
  BOOST_TEST(stood_down >= kWorlds / 1000);
  BOOST_TEST(successor_epochs > rescues);
}

BOOST_AUTO_TEST_CASE(a_run_is_a_function_of_its_seed) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Plan first_plan, second_plan;
    std::unique_ptr<World> first, second;
    BOOST_TEST(run_world(seed, first_plan, first) == run_world(seed, second_plan, second));
    hashes.insert(first->trace_hash());
  }
  BOOST_TEST(hashes.size() == 50u);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
