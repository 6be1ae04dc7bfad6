// Tests the predicted memory of the next packets. The prediction must be right when no packet is lost, and it
// must never name memory with valid bytes.
#include <boost/test/unit_test.hpp>

#include "dataplane/roce/constants.hpp"
#include "tests/dataplane/roce/script.hpp"
#include "tests/dataplane/roce/shared_memory_world.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(prediction_test)
namespace {

/// Returns "offset:bytes" of each predicted packet.
Lines predicted(Script& s, std::size_t most = 8, std::size_t skip = 0) {
  std::array<std::span<std::byte>, 64> out;
  const std::size_t count = s.connection().predict(std::span(out).first(most), skip);
  Lines lines;
  for (const auto& part : std::span(out).first(count))
    lines.push_back(fmt::format("{}:{}", part.data() - s.memory().data(), part.size()));
  return lines;
}
In part(int psn, std::uint64_t at, std::uint32_t rest) {
  return {Opcode::x_write, psn, kMtu, false, at, rest};
}
void expect_write(Script& s, std::uint64_t at, std::uint32_t bytes, RemoteKey key = kKey) {
  s.connection().expect_write(key, kBase + at, bytes);
}
const ConnectionConfig kSelective{.selective_repeat = true};

}  // namespace

BOOST_AUTO_TEST_CASE(the_message_under_way_goes_on_behind_the_highest_psn) {
  Script s(kSelective);
  CHECK_LINES(predicted(s));
  s.in(part(0, 1000, 4 * kMtu + 10));
  CHECK_LINES(predicted(s), "1256:256", "1512:256", "1768:256", "2024:10");
  CHECK_LINES(predicted(s, 2, 1), "1512:256", "1768:256");
  s.in(part(2, 1512, 2 * kMtu + 10));
  CHECK_LINES(predicted(s), "1768:256", "2024:10");
  // This packet only fills a gap, so the prediction stays the same.
  s.in(part(1, 1256, 3 * kMtu + 10));
  CHECK_LINES(predicted(s), "1768:256", "2024:10");
}

BOOST_AUTO_TEST_CASE(expected_writes_follow_and_go_when_their_first_packet_comes) {
  Script s(kSelective);
  expect_write(s, 0, 2 * kMtu);
  expect_write(s, 4096, kMtu);
  expect_write(s, 8192, kMtu + 1);
  expect_write(s, 9999, kMtu);
  // No train continues after a short packet, so the prediction ends there.
  CHECK_LINES(predicted(s), "0:256", "256:256", "4096:256", "8192:256", "8448:1");
  CHECK_LINES(predicted(s, 8, 5), "9999:256");
  CHECK_LINES(predicted(s, 8, 6));
  s.in(part(0, 0, 2 * kMtu));
  CHECK_LINES(predicted(s, 2), "256:256", "4096:256");
  // All packets of the second message are lost. A packet of the third message arrives next.
  s.in(part(3, 8192, kMtu + 1));
  CHECK_LINES(predicted(s), "8448:1");
  CHECK_LINES(predicted(s, 8, 1), "9999:256");
}

BOOST_AUTO_TEST_CASE(what_may_be_another_peers_is_not_scattered_where_a_peer_may_read) {
  for (const RemoteAccess access : {RemoteAccess::read, RemoteAccess::atomic}) {
    Script s(kSelective);
    s.regions().revoke(kKey);
    BOOST_REQUIRE(s.regions().add(kKey, kBase, s.memory(), RemoteAccess::write));
    BOOST_REQUIRE(s.regions().add(RemoteKey{99}, 0, s.memory().subspan(2048, 1024), access));
    const auto for_others = [&] {
      std::array<std::span<std::byte>, 8> out;
      return s.connection().predict(out, 0, true);
    };
    expect_write(s, 1024, 2 * kMtu);
    BOOST_TEST(for_others() == 2u);
    expect_write(s, 2048 - kMtu, 2 * kMtu);
    expect_write(s, 4096, kMtu);
    CHECK_LINES(predicted(s), "1024:256", "1280:256", "1792:256", "2048:256", "4096:256");
    // The first part of the second hint is memory that no peer may read. It is not predicted either, because
    // a claim is predicted only as a whole.
    BOOST_TEST(for_others() == 2u);
    s.regions().revoke(RemoteKey{99});
    CHECK_LINES(predicted(s), "1024:256", "1280:256", "4096:256");
    BOOST_TEST(for_others() == 3u);
    // The current message is in memory that a peer may read, so it is not predicted either.
    BOOST_REQUIRE(s.regions().add(RemoteKey{98}, 0, s.memory().subspan(16'384, 1024), access));
    s.in(part(0, 16'128, 3 * kMtu));
    BOOST_TEST(!predicted(s).empty());
    BOOST_TEST(for_others() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_write_of_no_bytes_uses_up_its_hint) {
  Script s(kSelective);
  // This hint is for a first-block arena, which is granted before the length of the message is known.
  expect_write(s, 512, 2 * kMtu);
  s.in({Opcode::x_write_last, 0, 0, false, 512, 0});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(memory_with_valid_bytes_is_never_predicted) {
  Script s(kSelective);
  s.in(part(0, 512, 3 * kMtu));
  // This hint is too late, because the message has already started.
  expect_write(s, 512, 3 * kMtu);
  CHECK_LINES(predicted(s), "768:256", "1024:256");
  // The message of this hint has a PSN below the highest one. It arrives late, after a gap.
  expect_write(s, 4096, kMtu);
  s.in({Opcode::x_write_last, 9, kMtu, false, 16384});
  CHECK_LINES(predicted(s), "4096:256");
  s.in({Opcode::x_write_last, 3, kMtu, false, 4096});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(hints_that_nothing_came_for_are_gone_when_their_memory_is_written_after_all) {
  Script s(kSelective);
  // These hints are from a grant that ended unused.
  for (const std::uint64_t at : {0, 4096}) expect_write(s, at, kMtu);
  for (const std::uint64_t at : {4096, 0}) expect_write(s, at, kMtu);
  s.in({Opcode::x_write_last, 0, kMtu, false, 4096});
  CHECK_LINES(predicted(s), "0:256");
  s.in({Opcode::x_write_last, 1, kMtu, false, 0});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(revoked_memory_is_never_predicted_even_under_a_new_key) {
  Script s(kSelective);
  s.in(part(0, 512, 3 * kMtu));
  expect_write(s, 4096, kMtu);
  s.regions().revoke(kKey);
  CHECK_LINES(predicted(s));
  BOOST_TEST(s.regions().add(RemoteKey{99}, kBase, s.memory()));
  CHECK_LINES(predicted(s));
  // This key is revoked. The other key is valid, but its region has no such bytes.
  expect_write(s, 0, kMtu);
  expect_write(s, s.memory().size() - 1, kMtu, RemoteKey{99});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(hints_of_revoked_memory_make_room_for_new_ones) {
  Script s(kSelective);
  for (std::size_t i = 0; i < kExpectedWrites; ++i) expect_write(s, 0, kMtu);
  expect_write(s, 4096, kMtu);
  // No further packet is predicted, because the limit is kExpectedWrites packets.
  CHECK_LINES(predicted(s, 1, kExpectedWrites));
  s.regions().revoke(kKey);
  BOOST_TEST(s.regions().add(RemoteKey{99}, kBase, s.memory()));
  expect_write(s, 8192, kMtu, RemoteKey{99});
  CHECK_LINES(predicted(s), "8192:256");
}

namespace {

/// Two connections that share the regions of the first one.
struct TwoScripts : Script {
  TwoScripts() : Script(kSelective) {}
  Arrival arrives_at_other(std::uint64_t at, std::size_t bytes, std::uint32_t rest = 0, int psn = 0) {
    const auto remaining = rest == 0 ? static_cast<std::uint32_t>(bytes) : rest;
    const Packet packet{
        .bth = {.opcode = remaining == bytes ? Opcode::x_write_last : Opcode::x_write, .psn = Psn() + psn},
        .x_write = {.address = kBase + at, .key = kKey, .remaining = remaining},
        .payload = std::span(payload).first(bytes)};
    return other.on_packet(packet, Time{}, false);
  }
  std::array<std::byte, 4096> payload{};
  Connection other{{.path_mtu = kMtu, .selective_repeat = true}, regions()};
};

}  // namespace

BOOST_AUTO_TEST_CASE(memory_that_another_connection_has_written_is_not_predicted) {
  TwoScripts s;
  expect_write(s, 0, kMtu);
  expect_write(s, 4096, kMtu);
  BOOST_TEST((s.arrives_at_other(0, kMtu).destination == s.memory().data()));
  CHECK_LINES(predicted(s), "4096:256");
  s.in(part(0, 8192, 4 * kMtu));
  CHECK_LINES(predicted(s, 3), "8448:256", "8704:256", "8960:256");
  // This packet arrives in the middle of the memory of the current message.
  s.arrives_at_other(8704, kMtu, 0, 1);
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(memory_that_another_connection_expects_is_its_alone) {
  TwoScripts s;
  expect_write(s, 0, 2 * kMtu);
  s.other.expect_write(kKey, kBase + kMtu, 2 * kMtu);
  CHECK_LINES(predicted(s));
  std::array<std::span<std::byte>, 4> out;
  BOOST_REQUIRE(s.other.predict(out, 0) == 2u);
  BOOST_TEST(out[0].data() == s.memory().data() + kMtu);
}

BOOST_AUTO_TEST_CASE(a_region_that_comes_or_goes_ends_the_hints_of_all_its_memory) {
  for (const bool comes : {true, false}) {
    Script s(kSelective);
    BOOST_REQUIRE(comes || s.regions().add(RemoteKey{99}, 0, s.memory().first(512)));
    expect_write(s, 256, 256);
    expect_write(s, 512, 256);
    if (comes)
      BOOST_REQUIRE(s.regions().add(RemoteKey{99}, 0, s.memory().first(512)));
    else
      s.regions().revoke(RemoteKey{99});
    CHECK_LINES(predicted(s), "512:256");
  }
}

BOOST_AUTO_TEST_CASE(the_hints_of_a_connection_end_with_it) {
  Script s(kSelective);
  {
    Connection other({.selective_repeat = true}, s.regions());
    other.expect_write(kKey, kBase, kMtu);
    BOOST_TEST(s.regions().claims().size() == 1u);
  }
  BOOST_TEST(s.regions().claims().size() == 0u);
}

BOOST_AUTO_TEST_CASE(a_peer_that_changes_a_messages_length_gets_no_prediction_beyond_its_region) {
  Script s(kSelective);
  s.in(part(0, 512, 3 * kMtu));
  s.in(part(1, 512 + kMtu, 1 << 30));
  CHECK_LINES(predicted(s));
  s.in(part(2, 512 + 2 * kMtu, 2 * kMtu));
  CHECK_LINES(predicted(s), "1280:256");
}

BOOST_AUTO_TEST_CASE(a_hint_of_memory_in_which_a_part_of_a_message_lies_is_not_used) {
  Script s(kSelective);
  s.in(
      // PSN 1, which is lost, is the first part of this message.
      {Opcode::x_write_last, 2, kMtu, false, 512 + kMtu});
  expect_write(s, 512, 2 * kMtu);
  CHECK_LINES(predicted(s));
  // PSN 1 belongs to this message. PSN 2 belongs to another message.
  s.in(part(0, 2048, 3 * kMtu));
  expect_write(s, 2048, 3 * kMtu);
  CHECK_LINES(predicted(s));
  expect_write(s, 4096, kMtu);
  CHECK_LINES(predicted(s), "4096:256");
}

// Regions and connections are added and removed at random, and packets overtake each other.
BOOST_AUTO_TEST_CASE(no_connection_ever_guesses_memory_that_has_become_somebody_elses) {
  std::size_t guessed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SharedMemoryWorld world(seed);
    for (int i = 0; i < 400; ++i) {
      world.step();
      if (!world.every_guess_is_harmless()) {
        BOOST_ERROR(fmt::format("seed {}, step {}", seed, i));
        break;
      }
    }
    guessed += world.guessed;
    world.end_connections();
    BOOST_TEST(world.claims() == 0u);
  }
  BOOST_TEST(guessed > 100'000u);
}

BOOST_AUTO_TEST_CASE(foreign_endpoints_have_no_hints) {
  Script foreign;
  expect_write(foreign, 0, kMtu);
  CHECK_LINES(predicted(foreign));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
