// Random programs of ranks with replicas, on a network in memory. Replicas die at any point, and the
// survivors learn of a death at different times. In some runs, new processes take the places of the dead.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/lib/replica/replica_world.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(replicas_test)

using namespace rdmc;
using namespace rdmc::replica;
using namespace rdmc::replica::testing;

namespace {

struct Setting {
  const char* protocol = "sdr";
  bool is_strict = false;
  bool recovers = false;
};

template <typename SomeProcess>
void play(FakeNetwork& network, const Layout& layout, std::vector<std::unique_ptr<SomeProcess>>& processes,
          std::size_t kills_in, const Setting& setting, Struck& struck) {
  ReplicaWorld<SomeProcess> world(
      network, layout, processes,
      {.kills_in = kills_in, .most_kills = setting.recovers ? 20 : 1 << 20, .recovers = setting.recovers},
      struck);
  world.play();
}

void run_program(const Setting& setting, std::uint64_t seed, Struck& struck) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> degrees(2 + random() % 3);
  const bool is_uniform = random() % 3 != 0;
  const auto degree = static_cast<std::uint32_t>(2 + random() % 2);
  for (auto& one : degrees) one = is_uniform ? degree : static_cast<std::uint32_t>(1 + random() % 3);
  const Layout layout = *Layout::of(degrees);
  FakeNetwork network(layout, setting.protocol, {.is_strict = setting.is_strict}, seed);
  network.is_tight = random() % 4 != 0;
  std::vector<Message> messages;
  for (auto count = 10 + random() % 30; count > 0; --count) {
    messages.push_back({.from = static_cast<std::uint32_t>(network.draw(layout.ranks())),
                        .to = static_cast<std::uint32_t>(network.draw(layout.ranks())),
                        .tag = static_cast<std::int32_t>(network.draw(3)),
                        .bytes = any_bytes(network)});
  }
  const bool waits = random() % 2 == 0 && std::ranges::none_of(messages, [](const Message& message) {
                       return message.from == message.to;
                     });
  std::vector<std::unique_ptr<Process>> processes;
  for (std::uint32_t i = 0; i < layout.processes(); ++i)
    processes.push_back(
        std::make_unique<Process>(network, i, value_of(layout.rank(ProcessId{i})), waits, messages));
  play(network, layout, processes, 40 + random() % 1500, setting, struck);
  for (const auto& process : processes) process->check();
  network.settle();
  for (std::uint32_t i = 0; i < layout.processes(); ++i)
    if (!network.is_dead(i)) BOOST_REQUIRE(network.messenger(i).is_settled());
  BOOST_REQUIRE_EQUAL(network.exposed_of_living(), 0U);
}

void run_rounds(const Setting& setting, std::uint64_t seed, Struck& struck) {
  std::mt19937_64 random(seed);
  const Layout layout = *Layout::uniform(static_cast<std::uint32_t>(3 + random() % 2),
                                         static_cast<std::uint32_t>(2 + random() % 2));
  FakeNetwork network(layout, setting.protocol, {.is_strict = setting.is_strict}, seed);
  network.is_tight = random() % 2 == 0;
  std::vector<std::unique_ptr<RoundProcess>> processes;
  for (std::uint32_t i = 0; i < layout.processes(); ++i)
    processes.push_back(
        std::make_unique<RoundProcess>(network, i, value_of(layout.rank(ProcessId{i})), layout.ranks()));
  play(network, layout, processes, 200 + random() % 4000, setting, struck);
  for (const auto& process : processes) process->check();
}

using RunProgram = void(const Setting& setting, std::uint64_t seed, Struck& struck);

Struck run_programs(const Setting& setting, RunProgram run = run_program) {
  Struck struck;
  const auto first = from_environment("RDMC_FIRST_SEED", 1);
  const auto seeds = all_or<std::uint64_t>(from_environment("RDMC_REPLICA_SEEDS", 600), 60);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      run(setting, seed, struck);
    }
  }
  BOOST_TEST_MESSAGE(setting.protocol << ": " << struck.kills << " kills, " << struck.recoveries
                                      << " recoveries, " << struck.failed_recoveries << " failed recoveries, "
                                      << struck.repeated << " repeated messages, " << struck.sent_for_dead
                                      << " messages sent for dead replicas");
  BOOST_TEST(struck.kills > static_cast<int>(seeds / 4));
  BOOST_TEST(struck.repeated > 0U);
  return struck;
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_sdr_the_survivors_get_every_message_once) {
  const Struck struck = run_programs({.protocol = "sdr"});
  BOOST_TEST((struck.sent_for_dead > 0 && struck.acknowledgements > 0));
}

BOOST_AUTO_TEST_CASE(with_strict_sdr_the_survivors_get_every_message_once) {
  const Struck struck = run_programs({.protocol = "sdr", .is_strict = true});
  BOOST_TEST((struck.sent_for_dead > 0 && struck.acknowledgements > 0));
}

BOOST_AUTO_TEST_CASE(with_mirror_the_survivors_get_every_message_once) {
  const Struck struck = run_programs({.protocol = "mirror"});
  BOOST_TEST((struck.sent_for_dead == 0 && struck.acknowledgements == 0));
}

BOOST_AUTO_TEST_CASE(a_receive_from_any_source_never_matches_what_its_own_rank_has_caused_later) {
  for (const char* protocol : {"sdr", "mirror"})
    for (const bool is_strict : {false, true})
      BOOST_TEST(run_programs({.protocol = protocol, .is_strict = is_strict}, run_rounds).questions > 0U);
}

BOOST_AUTO_TEST_CASE(replaced_replicas_get_every_message_once) {
  for (const char* protocol : {"sdr", "mirror"}) {
    for (const bool is_strict : {false, true}) {
      const Struck struck = run_programs({.protocol = protocol, .is_strict = is_strict, .recovers = true});
      BOOST_TEST((struck.recoveries > 0 && struck.failed_recoveries > 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(replaced_replicas_keep_the_order_of_messages_from_any_source) {
  for (const char* protocol : {"sdr", "mirror"})
    for (const bool is_strict : {false, true})
      BOOST_TEST(run_programs({.protocol = protocol, .is_strict = is_strict, .recovers = true}, run_rounds)
                     .recoveries > 0);
}

namespace {

/// Two ranks that send to each other. At replica 0 of rank 0, and at replica 1 of rank 1, the program gets
/// the message of the other rank before it sends its own one. The other two replicas send first. So two holds
/// wait for each other.
struct Circle {
  explicit Circle(std::uint64_t seed) : network(*Layout::uniform(2, 2), "sdr", {}, seed) {
    for (std::uint32_t i = 0; i < 4; ++i)
      receives.push_back(
          network.messenger(i).receive(kWorld, std::span(&received[i], 1), Messenger::kAny, 0));
    send(kAhead1);
    send(kAhead0);
    network.settle();
  }
  /// The program gets its message, and sends.
  void turn(std::uint32_t i) {
    BOOST_TEST_REQUIRE(network.messenger(i).is_complete(receives[i]));
    BOOST_TEST_REQUIRE(network.messenger(i).take(receives[i]).has_value());
    send(i);
    network.settle();
  }
  void send(std::uint32_t i) { network.messenger(i).send(kWorld, std::span(&sent, 1), i < 2 ? 1 : 0, 0); }
  void chase(std::uint32_t i) {
    network.messenger(i).chase_hold();
    network.settle();
  }
  bool holds(std::uint32_t i) { return network.messenger(i).oldest_hold().has_value(); }

  static constexpr std::uint32_t kBehind0 = 0, kAhead0 = 1, kAhead1 = 2, kBehind1 = 3;
  FakeNetwork network;
  std::byte sent{7}, received[4]{};
  std::vector<RequestId> receives;
};

}  // namespace

BOOST_AUTO_TEST_CASE(holds_that_wait_for_each_other_are_found_and_end) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Circle circle(seed);
    circle.turn(Circle::kBehind0);
    circle.turn(Circle::kBehind1);
    BOOST_TEST_REQUIRE((circle.holds(Circle::kBehind0) && circle.holds(Circle::kBehind1)));
    circle.chase(seed % 2 == 0 ? Circle::kBehind0 : Circle::kBehind1);
    for (std::uint32_t i = 0; i < 4; ++i) {
      BOOST_TEST(!circle.holds(i));
      BOOST_TEST((circle.received[i] == circle.sent));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_hold_that_waits_for_a_slow_replica_does_not_end) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Circle circle(seed);
    circle.turn(Circle::kBehind0);
    for (int i = 0; i < 3; ++i) circle.chase(Circle::kBehind0);
    BOOST_TEST_REQUIRE(circle.holds(Circle::kBehind0));
    // The hold of the slow replica closes the circle, and the next chase finds it.
    circle.turn(Circle::kBehind1);
    BOOST_TEST_REQUIRE(circle.holds(Circle::kBehind0));
    circle.chase(Circle::kBehind0);
    BOOST_TEST((!circle.holds(Circle::kBehind0) && !circle.holds(Circle::kBehind1)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
