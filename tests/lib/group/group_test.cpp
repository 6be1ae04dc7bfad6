#include "lib/group/group.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/shm_members.hpp"
#include "tests/lib/group/sim_members.hpp"

BOOST_AUTO_TEST_SUITE(group_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

GroupConfig group_of(std::uint32_t members, std::uint32_t block_bytes = 16 * 1024) {
  return {.members = first_peers(members), .block_bytes = block_bytes};
}
constexpr Time kLimit{60'000'000'000};

}  // namespace

BOOST_DATA_TEST_CASE(every_group_size_delivers_every_length_exactly,
                     bdata::make({1, 2, 3, 4, 5, 7, 8, 9, 16}) *
                         bdata::make({0, 1, 64, 16'383, 16'384, 16'385, 65'536, 300'001}),
                     members, bytes) {
  SimGroup group(1, group_of(static_cast<std::uint32_t>(members)));
  BOOST_REQUIRE(group.connected);
  group.send(static_cast<std::uint64_t>(bytes));
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(group.everybody_has_everything());
  for (int rank = 1; rank < members; ++rank) {
    BOOST_TEST(group[static_cast<std::size_t>(rank)].announced.at(0) == static_cast<std::uint64_t>(bytes));
  }
}

BOOST_AUTO_TEST_CASE(messages_of_different_lengths_queue_and_keep_the_roots_order) {
  SimGroup group(2, group_of(6));
  for (const std::uint64_t bytes : {100'000, 1, 0, 16'384, 70'001, 5, 500'000, 0}) group.send(bytes);
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(!group.send_failed);
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_DATA_TEST_CASE(every_byte_arrives_whatever_the_network_does, bdata::xrange(1, 41), seed) {
  Random random(static_cast<std::uint64_t>(seed));
  const auto members = static_cast<std::uint32_t>(random.between(2, 12));
  GroupConfig config = group_of(members, static_cast<std::uint32_t>(random.between(1, 16) * 4096));
  SimGroup group(static_cast<std::uint64_t>(seed), config,
                 {.mtu = seed % 2 == 0 ? 9000u : 1500u, .receive_train_segments = seed % 3 == 0 ? 1u : 64u},
                 {.link = {.queue_pair = {.selective_repeat = seed % 4 != 0}}});
  group.network.set_faults(
      {.loss = 10'000, .duplicate = 10'000, .reorder = 20'000, .corrupt = 5'000, .delay = 1'000});
  for (int i = 0; i < 3; ++i) group.send(random.below(600'000));
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(group.everybody_has_everything());
  for (const auto& member : group.members) BOOST_TEST(member->failures == 0);
}

BOOST_AUTO_TEST_CASE(on_a_clean_network_bulk_payload_lands_in_place_and_only_first_blocks_are_moved) {
  const std::uint64_t bytes = 2 << 20;
  SimGroup group(3, group_of(4, 64 * 1024), {.mtu = 9000});
  group.send(bytes);
  BOOST_REQUIRE(group.run_to_completion(kLimit));
  for (std::size_t rank = 1; rank < 4; ++rank) {
    const auto& counters = group[rank].fabric().counters();
    BOOST_TEST(counters.packets_in_place > 0u);
    // If a SEND comes between two trains, the payload of only a few of 256 packets must be copied to its
    // place.
    BOOST_TEST(counters.packets_repaired * 10 < counters.packets_in_place);
    BOOST_TEST(group[rank].group().counters().bytes_copied <= 64u * 1024);
  }
}

BOOST_AUTO_TEST_CASE(a_first_block_that_arrives_before_its_memory_is_known_is_copied_once) {
  constexpr std::uint32_t kBlock = 1 << 20;
  SimGroup group(3, group_of(4, kBlock), {.mtu = 9000});
  // The arena for the second message is granted before the length of this message is known.
  for (int i = 0; i < 2; ++i) {
    group.send(2 * kBlock);
    BOOST_REQUIRE(group.run_to_completion(kLimit));
  }
  for (std::size_t rank = 1; rank < 4; ++rank) {
    const auto& counters = group[rank].group().counters();
    BOOST_TEST(counters.first_blocks_copied == 1u);
    BOOST_TEST(counters.bytes_copied == kBlock);
    // The bytes must be at the address that the application has given.
    BOOST_TEST(std::ranges::equal(group[rank].bytes(1), group.root().bytes(1)));
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_is_late_with_its_memory_gets_the_message_all_the_same) {
  SimGroup group(4, group_of(5));
  group[3].accept_at_once = false;
  group.send(200'000);
  group.simulation.run_until(Time{50'000'000});
  BOOST_REQUIRE(group[3].announced.contains(0));
  BOOST_TEST(group[3].delivered_messages.empty());
  BOOST_REQUIRE(group[3].group().accept(0, group[3].store_for(0, 200'000)));
  group[3].wake();
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(a_killed_member_is_reported_by_its_neighbours_in_bounded_time_and_once) {
  SimGroup group(5, group_of(8));
  group.send(3 << 20);
  group.simulation.run_until(Time{1'000'000});
  group.simulation.kill(group[5].process());
  const Time killed = group.simulation.now();
  const auto reported = [&] {
    return std::ranges::any_of(group.members,
                               [](auto& m) { return m->failures > 0 && m->failed_peer == Rank{5}; });
  };
  BOOST_TEST(group.simulation.run_until(reported, killed + seconds(1)));
  group.simulation.run_until(killed + seconds(5));
  for (auto& member : group.members) {
    BOOST_TEST(member->failures <= 1);
    if (member->failures == 1) {
      BOOST_TEST(static_cast<int>(member->failure.code) == static_cast<int>(Errc::peer_failed));
      BOOST_TEST(!member->failure.what.empty());
    }
  }
}

BOOST_DATA_TEST_CASE(after_the_end_no_late_packet_changes_a_byte, bdata::make({false, true}), at_once) {
  SimGroup group(6, group_of(2));
  group.send(3 << 20);
  group.simulation.run_until(Time{500'000});
  BOOST_REQUIRE(group[1].announced.contains(0));
  if (at_once) {
    group[1].destroy();
  } else {
    group[1].group().end({Errc::cancelled, "over"});
    group[1].wake();
    BOOST_TEST(group.simulation.run_until([&] { return group[1].releases == 1; }, Time{10'000'000}));
  }
  const std::vector<std::byte> before(group[1].bytes(0).begin(), group[1].bytes(0).end());
  group.simulation.run_until(Time{100'000'000});
  BOOST_TEST(std::ranges::equal(before, group[1].bytes(0)));
}

BOOST_AUTO_TEST_CASE(calls_that_make_no_sense_are_refused_by_name) {
  SimGroup group(7, group_of(3));
  Store& store = group[1].store_for(9, 100);
  const auto code = [](const auto& result) { return static_cast<int>(result.error().code); };
  const int invalid = static_cast<int>(Errc::invalid_argument);
  const auto sent = group[1].group().send(store, 100);
  BOOST_REQUIRE(!sent);
  BOOST_TEST(code(sent) == invalid);
  const auto received = group[1].group().receive(store, 100);
  BOOST_REQUIRE(!received);
  BOOST_TEST(code(received) == invalid);
  const auto accepted = group[1].group().accept(4, store);
  BOOST_REQUIRE(!accepted);
  BOOST_TEST(code(accepted) == invalid);
  const auto connected = group[1].peers().connect(PeerId{17}, std::vector<std::byte>(8));
  BOOST_REQUIRE(!connected);
  BOOST_TEST(code(connected) == static_cast<int>(Errc::not_found));
  const auto too_small = group.root().group().send(store, 1 << 20);
  BOOST_REQUIRE(!too_small);
  BOOST_TEST(code(too_small) == invalid);
}

BOOST_AUTO_TEST_CASE(over_shared_memory_a_first_block_whose_place_is_known_in_time_is_copied_once) {
  constexpr std::uint64_t kBytes = 1'000'000;
  constexpr std::uint32_t kBlock = 128 << 10, kMessages = 6, kLate = 3;
  ShmMembers<GroupEnd> all(4, {.block_bytes = kBlock});
  struct Memory {
    memory::Arena arena;
    std::optional<MemoryStore> store;
  };
  std::vector<Memory> memory(4);
  for (std::size_t i = 0; i < 4; ++i) {
    memory[i].arena = *all.fabrics[i]->make_arena(kBytes);
    all.ends[i].choose_store = [&, i](std::uint64_t message, std::uint64_t bytes) -> Store* {
      if (i == 3 && message == kLate && bytes == kBytes) return nullptr;
      return &memory[i].store.emplace(memory[i].arena.bytes().first(kBytes), kBytes, kBlock);
    };
  }
  Random random(1);
  for (std::uint64_t message = 0; message < kMessages; ++message) {
    for (std::byte& b : memory[0].arena.bytes()) b = static_cast<std::byte>(random.next());
    BOOST_REQUIRE(all.ends[0].group().send(*all.ends[0].choose_store(message, 0), kBytes));
    // The last member gets its first block before it has memory for the message.
    if (message == kLate) {
      BOOST_REQUIRE(all.run_until([&] { return all.ends[3].group().blocks_received(message) == 1; }));
      auto& [arena, store] = memory[3];
      BOOST_REQUIRE(all.ends[3].group().accept(message, store.emplace(arena.bytes(), kBytes, kBlock)));
    }
    const auto is_complete = [&](const auto& end) { return end.completed_messages.size() == message + 1; };
    BOOST_REQUIRE(all.run_until([&] { return std::ranges::all_of(all.ends, is_complete); }));
    for (const Memory& one : memory)
      BOOST_REQUIRE(
          std::ranges::equal(one.arena.bytes().first(kBytes), memory[0].arena.bytes().first(kBytes)));
  }
  for (std::size_t i = 1; i < 4; ++i) {
    const GroupCounters& counters = all.ends[i].group().counters();
    // The memory of the first message is granted at once, so its first block does not count.
    BOOST_TEST(counters.first_blocks_in_place + counters.first_blocks_copied == kMessages - 1);
    BOOST_TEST(counters.first_blocks_copied == (i == 3 ? 1U : 0U));
    BOOST_TEST(counters.bytes_copied == (i == 3 ? kBlock : 0U));
  }
}

BOOST_AUTO_TEST_SUITE_END()
