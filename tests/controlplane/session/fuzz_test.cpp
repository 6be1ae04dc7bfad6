// Tests messages that a faulty peer may send: noise, damaged messages, and well-formed messages at the wrong
// time. No such message may crash a state machine, prevent the end of the job, or remove a member that is not
// its sender. With sanitizers, this test also checks the memory accesses of the decoder.
#include <boost/test/unit_test.hpp>

#include "tests/controlplane/session/world.hpp"
#include "tests/sampled.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(fuzz_test)
namespace {

constexpr std::uint8_t kSuspect = 13, kLastKind = 26;
constexpr Duration kLimit = seconds(400);

Bytes noise(Random& random) {
  Bytes bytes(random.below(64));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(256));
  return bytes;
}

/// Returns an Envelope of a random kind. Its fields are small numbers and short texts. It is never a Suspect,
/// because a suspicion is permitted at any time and can remove a member that is not its sender.
Bytes forgery(Random& random) {
  Bytes body;
  for (std::uint64_t field = 1; field <= 4; ++field) {
    if (random.below(3) == 0) continue;
    const bool text = random.below(3) == 0;
    body.push_back(static_cast<std::byte>(field << 3 | (text ? 2 : 0)));
    body.push_back(static_cast<std::byte>(random.below(4)));
    if (text) body.insert(body.end(), std::to_integer<std::size_t>(body.back()), std::byte{0x08});
  }
  std::uint64_t kind = random.between(1, kLastKind);
  if (kind == kSuspect) kind = kLastKind + 1;
  Bytes bytes;
  const auto tag = static_cast<std::uint32_t>(kind << 3 | 2);
  bytes.push_back(static_cast<std::byte>(tag >= 0x80 ? (tag & 0x7F) | 0x80 : tag));
  if (tag >= 0x80) bytes.push_back(static_cast<std::byte>(tag >> 7));
  bytes.push_back(static_cast<std::byte>(body.size()));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

void damage(Bytes& bytes, Random& random) {
  switch (random.below(4)) {
    case 0: bytes.resize(random.below(bytes.size() + 1)); return;
    case 1: bytes.push_back(static_cast<std::byte>(random.below(256))); return;
    case 2: bytes.insert(bytes.end(), bytes.begin(), bytes.end()); return;
    default:
      if (!bytes.empty()) bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
  }
}

void check(World& world, std::size_t victim) {
  BOOST_TEST(world.run(Time{} + kLimit), "the job ends");
  for (std::size_t i = 1; i < world.size(); ++i) {
    BOOST_TEST(world.count(i, "Finished") == 1, "everyone has one outcome");
    BOOST_REQUIRE(world.outcome(i) != nullptr);
    if (i != victim) BOOST_TEST((world.outcome(i)->status == Status::ok), "the others go on");
  }
}

BOOST_AUTO_TEST_CASE(damaged_messages_cost_nobody_but_their_member) {
  std::uint64_t protocol_errors = 0;
  for (std::uint64_t seed = 1; seed <= all_or(500u, 100u); ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      World world({.participants = 4, .seed = seed});
      const std::size_t victim = random.between(1, 4);
      world.tamper(victim, [&random](Bytes& bytes) {
        if (random.chance(80'000)) damage(bytes, random);
      });
      check(world, victim);
      protocol_errors += world.coordinator().counters().protocol_errors;
      protocol_errors += world.participant(victim).counters().protocol_errors;
    }
  }
  BOOST_TEST(protocol_errors > all_or(100u, 20u));
}

BOOST_AUTO_TEST_CASE(well_formed_messages_at_any_time_cost_nobody_but_their_member) {
  std::uint64_t by_coordinator = 0, by_participant = 0;
  for (std::uint64_t seed = 1; seed <= all_or(1000u, 200u); ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Random random(seed);
      World world({.participants = 4, .seed = seed});
      const std::size_t victim = random.between(1, 4);
      for (std::uint64_t count = random.between(1, 4); count > 0; --count) {
        const Time when = Time{} + microseconds(static_cast<std::int64_t>(random.below(500'000)));
        world.at(when, [&world, victim, bytes = forgery(random), to_participant = random.below(2) == 0] {
          world.inject(victim, bytes, to_participant);
        });
      }
      check(world, victim);
      by_coordinator += world.coordinator().counters().protocol_errors;
      by_participant += world.participant(victim).counters().protocol_errors;
    }
  }
  BOOST_TEST(by_coordinator > all_or(100u, 20u));
  BOOST_TEST(by_participant > all_or(100u, 20u));
}

BOOST_AUTO_TEST_CASE(noise_ends_a_machine_in_every_phase_without_harm) {
  for (const char* phase :
       {"JobOffered", "FormRequested", "PeersReady", "StartData", "EndData", "CommitRequested"}) {
    for (std::uint64_t seed = 1; seed <= all_or(100u, 20u); ++seed) {
      BOOST_TEST_CONTEXT(phase << ", seed " << seed) {
        Random random(seed);
        World world({.participants = 3, .seed = seed});
        world.on(2, phase, [&] {
          for (int i = 0; i < 20; ++i) world.inject(2, noise(random), i % 2 == 0);
        });
        check(world, 2);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
