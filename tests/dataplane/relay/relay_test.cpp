// Tests a single relay: the exact lengths in all special cases, and the input that the relay must refuse.
#include "dataplane/relay/relay.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(relay_test)
namespace {

constexpr RemoteKey kKey{77};
constexpr std::uint64_t kAddress = 0x10'0000'0000;

Relay relay_of(std::uint32_t rank, std::uint32_t members, std::uint32_t block_bytes,
               std::uint16_t slot_id = 0) {
  return *Relay::create(
      {.rank = Rank{rank}, .members = members, .block_bytes = block_bytes, .slot_id = slot_id});
}

Relay ready(std::uint32_t rank, std::uint32_t members, std::uint32_t block_bytes, std::uint64_t length,
            std::uint64_t slots) {
  Relay relay = relay_of(rank, members, block_bytes);
  BOOST_REQUIRE(relay.set_length(length).has_value());
  BOOST_REQUIRE(relay.set_memory({slots, kAddress, kKey}).has_value());
  if (rank == 0) relay.on_available(relay.block_count());
  return relay;
}

template <typename T>
bool is_error(const Result<T>& result, Errc code) {
  return !result.has_value() && result.error().code == code && !result.error().what.empty();
}

std::vector<std::pair<Rank, BlockGrant>> grants_of(Relay& relay) {
  std::vector<std::pair<Rank, BlockGrant>> all;
  Rank to{};
  for (BlockGrant grant; relay.poll_grant(to, grant);) all.emplace_back(to, grant);
  return all;
}

const BlockGrant kWholeMemory{
    .limit = 1'000'000, .remote_address = kAddress, .slots = 1'000'000, .key = kKey};
const BlockGrant kArena{
    .limit = 1, .remote_address = 0x7000, .slots = 1, .key = kKey, .slot_id = 3, .first_only = true};

BOOST_AUTO_TEST_CASE(a_length_becomes_exact_blocks) {
  struct Case {
    std::uint64_t length, blocks;
    std::uint32_t last;
  };
  for (const auto [length, blocks, last] : {Case{0, 1, 0},
                                            {1, 1, 1},
                                            {4095, 1, 4095},
                                            {4096, 1, 4096},
                                            {4097, 2, 1},
                                            {8192, 2, 4096},
                                            {std::uint64_t{5} << 40, std::uint64_t{5} << 28, 4096},
                                            {(std::uint64_t{5} << 40) + 9, (5ULL << 28) + 1, 9}}) {
    Relay relay = relay_of(0, 2, 4096);
    BOOST_REQUIRE(relay.set_length(length).has_value());
    BOOST_TEST(relay.length() == length);
    BOOST_TEST(relay.block_count() == blocks);
    BOOST_TEST(relay.block_length(blocks - 1) == last);
    if (blocks > 1) BOOST_TEST(relay.block_length(0) == 4096u);
  }
}

BOOST_AUTO_TEST_CASE(a_group_of_one_is_complete_when_its_message_is_available) {
  for (const std::uint64_t length : {0ULL, 1ULL, 1000ULL}) {
    Relay relay = relay_of(0, 1, 10);
    BOOST_REQUIRE(relay.set_length(length).has_value());
    BOOST_REQUIRE(relay.set_memory({relay.block_count()}).has_value());
    BOOST_TEST(!relay.is_complete());
    relay.on_available(relay.block_count());
    BlockWrite write;
    BOOST_TEST(!relay.poll_write(write));
    BOOST_TEST(relay.is_delivered());
    BOOST_TEST(relay.is_complete());
  }
}

BOOST_AUTO_TEST_CASE(an_empty_message_is_one_write_of_no_bytes) {
  Relay root = ready(0, 2, 1 << 20, 0, 1);
  Relay receiver = ready(1, 2, 1 << 20, 0, 1);
  for (const auto& [to, grant] : grants_of(receiver))
    BOOST_REQUIRE(root.on_grant(Rank{1}, grant).has_value());
  BlockWrite write;
  BOOST_REQUIRE(root.poll_write(write));
  BOOST_TEST(write.bytes == 0u);
  BOOST_TEST(receiver.on_block(Rank{0}, write.immediate, 0).value() == 0u);
  BOOST_TEST(receiver.is_delivered());
  receiver.on_consumed(0);
  root.on_write_complete(Rank{1}, 0);
  BOOST_TEST(receiver.is_complete());
  BOOST_TEST(root.is_complete());
}

BOOST_AUTO_TEST_CASE(a_message_shorter_than_a_block_sends_its_bytes_and_no_padding) {
  Relay root = ready(0, 4, 1 << 20, 64, 1);
  BOOST_REQUIRE(root.on_grant(Rank{1}, kWholeMemory).has_value());
  BlockWrite write;
  BOOST_REQUIRE(root.poll_write(write));
  BOOST_TEST(write.bytes == 64u);
}

BOOST_AUTO_TEST_CASE(no_write_goes_past_a_destination_of_exactly_the_message_length) {
  constexpr std::uint64_t kLength = 3 * 100 + 7;
  Relay root = ready(0, 8, 100, kLength, 4);
  for (const std::uint32_t to : {1U, 2U, 4U}) {
    BOOST_REQUIRE(root.on_grant(Rank{to}, {.limit = 4, .remote_address = kAddress, .slots = 4, .key = kKey})
                      .has_value());
  }
  std::uint32_t writes = 0;
  for (BlockWrite write; root.poll_write(write); ++writes) {
    BOOST_TEST(write.remote_address == kAddress + 100 * write.block);
    BOOST_TEST(write.remote_address + write.bytes <= kAddress + kLength);
  }
  BOOST_TEST(writes == 6u);
}

BOOST_AUTO_TEST_CASE(a_member_whose_first_block_is_the_last_and_short_keeps_and_relays_the_exact_length) {
  // Rank 2 of 8 receives block 1 before all other blocks. In a message of two blocks, this is the last block,
  // and it has 5 bytes.
  Relay relay = ready(2, 8, 100, 105, 2);
  BOOST_REQUIRE(relay.first_block() == 1);
  grants_of(relay);
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 1, 100), Errc::protocol_error));
  BOOST_REQUIRE(relay.on_block(Rank{0}, 1, 5).has_value());
  BOOST_TEST(relay.length() == 105u);
  for (const Rank to : relay.schedule().destinations())
    BOOST_REQUIRE(relay.on_grant(to, kWholeMemory).has_value());
  BlockWrite write;
  BOOST_REQUIRE(relay.poll_write(write));
  BOOST_TEST(write.block == 1u);
  BOOST_TEST(write.bytes == 5u);
}

BOOST_AUTO_TEST_CASE(back_to_back_messages_of_different_block_counts_share_the_same_first_grant) {
  // The arena for the next message is granted before the length of this message is known. For every length,
  // the grant goes to the same source.
  for (const std::uint64_t length : {1ULL, 250ULL, 100'000ULL}) {
    Relay relay = relay_of(2, 8, 100);
    BOOST_REQUIRE(relay.offer_arena(0x9000, RemoteKey{5}).has_value());
    const auto grants = grants_of(relay);
    BOOST_REQUIRE(grants.size() == 1u);
    BOOST_CHECK(grants[0].first == *relay.schedule().first_source_of(Rank{2}, 1));
    BOOST_CHECK(grants[0].second.first_only && grants[0].second.remote_address == 0x9000);
    // The length must be known before the first block.
    BOOST_TEST(is_error(relay.on_block(grants[0].first, 0, 1), Errc::protocol_error));
    BOOST_REQUIRE(relay.set_length(length).has_value());
    const std::uint64_t block = relay.first_block();
    BOOST_TEST(block == std::min<std::uint64_t>(1, relay.block_count() - 1));
    BOOST_TEST(relay.on_block(grants[0].first, immediate_of(0, block), relay.block_length(block)).value() ==
               block);
    // The first block must be relayed from the arena as long as the application has not set the memory.
    for (const Rank to : relay.schedule().destinations())
      BOOST_REQUIRE(relay.on_grant(to, kWholeMemory).has_value());
    BlockWrite write;
    BOOST_REQUIRE(relay.poll_write(write));
    BOOST_TEST(write.from_arena);
    BOOST_TEST(write.local_offset == 0u);
    BOOST_TEST(relay.first_block_busy());
    BOOST_REQUIRE(relay.set_memory({relay.block_count(), kAddress, kKey}).has_value());
    relay.on_write_complete(write.to, write.block);
    BOOST_TEST(!relay.first_block_busy());
    relay.place_first_block();
    if (relay.poll_write(write)) BOOST_TEST(!write.from_arena);
  }
}

BOOST_AUTO_TEST_CASE(a_grant_for_the_next_message_is_kept_until_that_message_starts) {
  Relay current = ready(0, 2, 100, 100, 1);
  Relay next = relay_of(0, 2, 100);
  BOOST_REQUIRE(next.on_grant(Rank{1}, kArena).has_value());
  BlockWrite write;
  BOOST_TEST(!current.poll_write(write));
  BOOST_TEST(!next.poll_write(write));
  BOOST_REQUIRE(next.set_length(150).has_value());
  BOOST_REQUIRE(next.set_memory({2}).has_value());
  next.on_available(2);
  BOOST_REQUIRE(next.poll_write(write));
  BOOST_TEST(write.into_arena);
  BOOST_TEST(write.remote_address == kArena.remote_address);
  BOOST_TEST(write.immediate == 0x0003'0000u);
  // The arena has space for one block. All other blocks wait for the memory.
  BOOST_TEST(!next.poll_write(write));
  BOOST_REQUIRE(next.on_grant(Rank{1}, kWholeMemory).has_value());
  BOOST_REQUIRE(next.poll_write(write));
  BOOST_TEST(!write.into_arena);
  BOOST_TEST(write.remote_address == kAddress + 100);
}

BOOST_AUTO_TEST_CASE(a_cancelled_message_falls_silent_and_says_when_its_memory_is_quiet) {
  Relay relay = ready(0, 4, 100, 1000, 10);
  BOOST_REQUIRE(relay.on_grant(Rank{1}, kWholeMemory).has_value());
  BlockWrite first;
  BOOST_REQUIRE(relay.poll_write(first));
  relay.cancel();
  BlockWrite write;
  BOOST_TEST(!relay.poll_write(write));
  BOOST_TEST(relay.writes_in_flight() == 1u);
  BOOST_REQUIRE(relay.on_grant(Rank{2}, kWholeMemory).has_value());
  BOOST_TEST(!relay.poll_write(write));
  relay.on_write_complete(first.to, first.block);
  BOOST_TEST(relay.writes_in_flight() == 0u);
  BOOST_TEST(relay.released_limit() == 0u);
  BOOST_TEST(!relay.is_complete());

  Relay receiver = ready(1, 4, 100, 1000, 10);
  receiver.cancel();
  BOOST_TEST(grants_of(receiver).empty());
  BOOST_TEST(is_error(receiver.on_block(Rank{0}, 0, 100), Errc::cancelled));
}

BOOST_AUTO_TEST_CASE(a_block_that_is_not_due_is_refused_and_changes_nothing) {
  Relay relay = ready(1, 4, 100, 1000, 10);
  // No memory has been granted yet.
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 0, 100), Errc::protocol_error));
  grants_of(relay);
  // The sender is not a neighbour.
  BOOST_TEST(is_error(relay.on_block(Rank{2}, 0, 100), Errc::protocol_error));
  BOOST_TEST(is_error(relay.on_block(Rank{9}, 0, 100), Errc::protocol_error));  // The sender is not a member.
  // Another member must send this block.
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 1, 100), Errc::protocol_error));
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 0, 99), Errc::protocol_error));   // The block is too short.
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 0, 101), Errc::protocol_error));  // The block is too long.
  // The message id is that of another message.
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 0x0100'0000, 100), Errc::protocol_error));
  BOOST_TEST(relay.blocks_held() == 0u);
  BOOST_TEST(relay.on_block(Rank{0}, 0, 100).value() == 0u);
  // The block has arrived already.
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 0, 100), Errc::protocol_error));
  BOOST_TEST(relay.blocks_held() == 1u);
}

std::vector<std::uint64_t> numbers_below(std::uint64_t end) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < end; ++number) numbers.push_back(number);
  return numbers;
}

BOOST_AUTO_TEST_CASE(a_block_that_was_overtaken_holds_up_nothing_but_itself) {
  constexpr std::uint32_t kBlocks = kMostExpectedWrites + 3;
  auto relay =
      *Relay::create({.algorithm = Algorithm::chain, .rank = Rank{1}, .members = 3, .block_bytes = 100});
  BOOST_REQUIRE(relay.set_length(100 * kBlocks).has_value());
  BOOST_REQUIRE(relay.set_memory({kBlocks, kAddress, kKey}).has_value());
  grants_of(relay);
  BOOST_REQUIRE(relay.on_grant(Rank{2}, kWholeMemory).has_value());
  std::vector<std::uint64_t> sent, foretold;
  const auto drain = [&] {
    for (BlockWrite write; relay.poll_write(write);) sent.push_back(write.block);
    for (ExpectedWrite expected_write; relay.poll_expected_write(expected_write);)
      foretold.push_back(expected_write.block);
  };
  drain();
  BOOST_TEST((sent.empty() && foretold == numbers_below(kMostExpectedWrites)));
  // The last block arrives before the relay has announced it as an expected write.
  std::vector<std::uint64_t> order{0, 2, kBlocks - 1, 1};
  for (std::uint64_t block = 3; block + 1 < kBlocks; ++block) order.push_back(block);
  for (const std::uint64_t number : order) {
    const auto block = static_cast<std::uint32_t>(number);
    BOOST_TEST(relay.on_block(Rank{0}, block, 100).value() == block);
    drain();
    BOOST_TEST(is_error(relay.on_block(Rank{0}, block, 100), Errc::protocol_error));
  }
  BOOST_TEST(sent == order);
  BOOST_TEST((foretold == numbers_below(kBlocks - 1)));
  BOOST_TEST(relay.is_delivered());
}

BOOST_AUTO_TEST_CASE(the_first_write_to_a_destination_keeps_its_place) {
  auto relay =
      *Relay::create({.algorithm = Algorithm::chain, .rank = Rank{1}, .members = 3, .block_bytes = 100});
  BOOST_REQUIRE(relay.set_length(300).has_value());
  BOOST_REQUIRE(relay.set_memory({3, kAddress, kKey}).has_value());
  grants_of(relay);
  BOOST_REQUIRE(relay.on_grant(Rank{2}, kArena).has_value());
  BOOST_REQUIRE(relay.on_grant(Rank{2}, kWholeMemory).has_value());
  BOOST_TEST(relay.on_block(Rank{0}, 1, 100).value() == 1u);
  BlockWrite write;
  BOOST_TEST(!relay.poll_write(write));  // The destination's arena is only for the first block.
  BOOST_TEST(relay.on_block(Rank{0}, 0, 100).value() == 0u);
  BOOST_REQUIRE(relay.poll_write(write));
  BOOST_TEST((write.block == 0 && write.into_arena));
}

BOOST_AUTO_TEST_CASE(a_block_beyond_the_granted_window_or_after_the_last_is_refused) {
  Relay relay = ready(1, 2, 100, 500, 2);
  grants_of(relay);
  BOOST_TEST(relay.on_block(Rank{0}, 0, 100).value() == 0u);
  BOOST_TEST(relay.on_block(Rank{0}, 1, 100).value() == 1u);
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 2, 100), Errc::protocol_error));
  relay.on_consumed(1);
  // The blocks were consumed out of order. The ring buffer can only be released from its oldest block on.
  BOOST_TEST(relay.released_limit() == 0u);
  relay.on_consumed(0);
  BOOST_TEST(relay.released_limit() == 2u);
  // The slot is free, but it has not been granted.
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 2, 100), Errc::protocol_error));
  for (std::uint64_t block = 2; block < 5; ++block) {
    grants_of(relay);
    BOOST_TEST(relay.on_block(Rank{0}, static_cast<std::uint32_t>(block), 100).value() == block);
    relay.on_consumed(block);
  }
  BOOST_TEST(relay.is_complete());
  BOOST_TEST(is_error(relay.on_block(Rank{0}, 5, 100), Errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(a_grant_that_cannot_be_meant_is_refused) {
  Relay relay = relay_of(0, 4, 100);
  const auto refused = [&](Rank from, BlockGrant grant) {
    return is_error(relay.on_grant(from, grant), Errc::protocol_error);
  };
  BOOST_TEST(refused(Rank{3}, kWholeMemory));  // The root of 4 members never sends to rank 3.
  BOOST_TEST(refused(Rank{9}, kWholeMemory));
  BOOST_TEST(refused(Rank{1}, {.limit = 0, .slots = 1}));
  BOOST_TEST(refused(Rank{1}, {.limit = 1, .slots = 0}));
  BOOST_TEST(refused(Rank{1}, {.limit = 1, .remote_address = ~std::uint64_t{0} - 50, .slots = 1}));
  BOOST_TEST(refused(Rank{1}, {.limit = 1, .slots = std::uint64_t{1} << 60}));
  BOOST_TEST(refused(Rank{1}, {.limit = 2, .slots = 1, .first_only = true}));
  BOOST_REQUIRE(relay.on_grant(Rank{1}, kArena).has_value());
  BOOST_TEST(refused(Rank{1}, kArena));
  BlockGrant grant{.limit = 5, .remote_address = kAddress, .slots = 8, .key = kKey};
  BOOST_REQUIRE(relay.on_grant(Rank{1}, grant).has_value());
  BOOST_TEST(refused(Rank{1}, {.limit = 4, .remote_address = kAddress, .slots = 8, .key = kKey}));
  BOOST_TEST(refused(Rank{1}, {.limit = 6, .remote_address = kAddress + 1, .slots = 8, .key = kKey}));
  BOOST_TEST(refused(Rank{1}, {.limit = 6, .remote_address = kAddress, .slots = 9, .key = kKey}));
  grant.limit = 6;
  BOOST_TEST(relay.on_grant(Rank{1}, grant).has_value());

  Relay later = relay_of(1, 4, 100);
  BOOST_TEST(
      is_error(later.on_grant(Rank{0}, kWholeMemory), Errc::protocol_error));  // No member sends to the root.
}

BOOST_AUTO_TEST_CASE(no_first_block_is_granted_where_its_source_depends_on_the_length) {
  Relay member = *Relay::create({.algorithm = Algorithm::circulant, .rank = Rank{3}, .members = 9});
  BOOST_TEST(is_error(member.offer_arena(1, kKey), Errc::invalid_argument));
  const Rank to = member.schedule().destinations().front();
  BlockGrant grant{.limit = 1, .remote_address = 1, .slots = 1, .key = kKey, .first_only = true};
  BOOST_TEST(is_error(member.on_grant(to, grant), Errc::protocol_error));
  grant.first_only = false;
  BOOST_TEST(member.on_grant(to, grant).has_value());
  BOOST_REQUIRE(member.set_length(1).has_value());
  BOOST_CHECK(member.first_source() == member.schedule().first_receive(1)->peer);
}

BOOST_AUTO_TEST_CASE(a_first_block_grant_is_for_the_first_source_only) {
  for (std::uint32_t rank = 1; rank < 16; ++rank) {
    const Rank first = *Schedule(Algorithm::binomial_pipeline, Rank{rank}, 16).first_source_of(Rank{rank}, 1);
    for (const Rank source : Schedule(Algorithm::binomial_pipeline, Rank{rank}, 16).sources()) {
      Relay sender = relay_of(value_of(source), 16, 100);
      BOOST_TEST(sender.on_grant(Rank{rank}, kArena).has_value() == (source == first));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_ring_too_small_for_the_pipeline_is_refused_by_name) {
  for (const std::uint32_t members : {3U, 8U, 9U, 100U}) {
    Relay relay = relay_of(1, members, 100);
    BOOST_REQUIRE(relay.set_length(100'000).has_value());
    const std::uint64_t least = relay.schedule().minimum_slots();
    const auto refused = relay.set_memory({least - 1, kAddress, kKey});
    BOOST_REQUIRE(is_error(refused, Errc::invalid_argument));
    BOOST_TEST(refused.error().what.find(std::to_string(least)) != std::string::npos);
    BOOST_TEST(relay.set_memory({least, kAddress, kKey}).has_value());
  }
  Relay short_message = relay_of(1, 100, 100);
  BOOST_REQUIRE(short_message.set_length(150).has_value());
  BOOST_TEST(is_error(short_message.set_memory({1, kAddress, kKey}), Errc::invalid_argument));
  BOOST_TEST(short_message.set_memory({2, kAddress, kKey}).has_value());
}

BOOST_AUTO_TEST_CASE(misuse_is_named) {
  const RelayConfig good{.rank = Rank{0}, .members = 2, .block_bytes = 1};
  const auto refused = [](RelayConfig config) {
    return is_error(Relay::create(config), Errc::invalid_argument);
  };
  BOOST_TEST(Relay::create(good).has_value());
  auto config = good;
  config.members = 0;
  BOOST_TEST(refused(config));
  config = good;
  config.rank = Rank{2};
  BOOST_TEST(refused(config));
  config = good;
  config.block_bytes = 0;
  BOOST_TEST(refused(config));
  config.block_bytes = 0x8000'0000;
  BOOST_TEST(refused(config));
  config = good;
  config.max_writes_in_flight = 0;
  BOOST_TEST(refused(config));

  Relay relay = relay_of(1, 2, 1);
  BOOST_TEST(is_error(relay.set_memory({9, kAddress, kKey}), Errc::invalid_argument));
  BOOST_TEST(is_error(relay.set_length(~std::uint64_t{0}), Errc::invalid_argument));
  BOOST_TEST(relay.set_length(9).has_value());
  BOOST_TEST(relay.set_length(9).has_value());
  BOOST_TEST(is_error(relay.set_length(10), Errc::protocol_error));
  BOOST_TEST(relay.set_memory({9, kAddress, kKey}).has_value());
  BOOST_TEST(is_error(relay.set_memory({9, kAddress, kKey}), Errc::invalid_argument));
  BOOST_TEST(is_error(relay.offer_arena(1, kKey), Errc::invalid_argument));
  Relay root = relay_of(0, 2, 1);
  BOOST_TEST(is_error(root.offer_arena(1, kKey), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_missing_first_grant_holds_up_every_later_write) {
  // The root sends block 0 to rank 1, block 1 to rank 2, block 2 to rank 4, block 3 to rank 1, and so on.
  Relay root = ready(0, 8, 100, 1000, 10);
  BOOST_REQUIRE(root.on_grant(Rank{2}, kWholeMemory).has_value());
  BOOST_REQUIRE(root.on_grant(Rank{4}, kWholeMemory).has_value());
  BlockWrite write;
  BOOST_TEST(!root.poll_write(write));
  BOOST_REQUIRE(root.on_grant(Rank{1}, kWholeMemory).has_value());
  for (const Transfer expected : {Transfer{Rank{1}, 0}, {Rank{2}, 1}, {Rank{4}, 2}, {Rank{1}, 3}}) {
    BOOST_REQUIRE(root.poll_write(write));
    BOOST_CHECK((Transfer{write.to, write.block} == expected));
  }
}

BOOST_AUTO_TEST_CASE(a_missing_block_is_overtaken_by_writes_to_others_but_not_to_the_same_destination) {
  // Rank 3 of 8 has received all blocks that are due, except the blocks from rank 1.
  const Schedule plan(Algorithm::binomial_pipeline, Rank{3}, 8);
  Relay relay = ready(3, 8, 100, 1000, 10);
  grants_of(relay);
  for (const Rank to : plan.destinations()) BOOST_REQUIRE(relay.on_grant(to, kWholeMemory).has_value());
  // The sends that are possible. If a block is missing for a destination, no later block is sent to this
  // destination.
  std::vector<Transfer> due;
  std::vector<Rank> stuck;
  std::vector<bool> held(10, false);
  for (std::uint64_t step = 0; step < plan.steps(10); ++step) {
    const auto receive = plan.at(step, 10).receive;
    if (!receive || receive->peer == Rank{1}) continue;
    BOOST_REQUIRE(relay.on_block(receive->peer, immediate_of(0, receive->block), 100).has_value());
    held[receive->block] = true;
  }
  bool overtakes = false;
  for (std::uint64_t step = 0; step < plan.steps(10); ++step) {
    const auto send = plan.at(step, 10).send;
    if (!send || std::ranges::find(stuck, send->peer) != stuck.end()) continue;
    if (held[send->block]) {
      overtakes |= !stuck.empty();
      due.push_back(*send);
    } else {
      stuck.push_back(send->peer);
    }
  }
  BOOST_REQUIRE(overtakes);
  std::vector<Transfer> sent;
  for (BlockWrite write; relay.poll_write(write);) sent.push_back({write.to, write.block});
  BOOST_CHECK(sent == due);
}

/// One of the two destinations either acknowledges nothing or has no space in its ring buffer.
BOOST_AUTO_TEST_CASE(a_slow_destination_holds_up_no_other_as_long_as_its_blocks_have_slots) {
  constexpr std::uint64_t kBlocks = 2000, kRing = 9;
  for (const bool acknowledges : {false, true}) {
    Relay root = *Relay::create({.algorithm = Algorithm::two_trees, .members = 8, .block_bytes = 4});
    BOOST_REQUIRE(root.set_length(4 * kBlocks).has_value());
    BOOST_REQUIRE(root.set_memory({.slots = kBlocks}).has_value());
    root.on_available(kBlocks);
    const auto destinations = root.schedule().destinations();
    BOOST_REQUIRE_EQUAL(destinations.size(), 2u);
    const Rank slow = destinations[0];
    BlockGrant of_slow = kWholeMemory;
    if (acknowledges) of_slow.limit = of_slow.slots = kRing;
    BOOST_REQUIRE(root.on_grant(slow, of_slow).has_value());
    BOOST_REQUIRE(root.on_grant(destinations[1], kWholeMemory).has_value());
    std::uint64_t quick = 0;
    for (BlockWrite write; root.poll_write(write);) {
      quick += write.to == slow ? 0 : 1;
      if (write.to != slow || acknowledges) root.on_write_complete(write.to, write.block);
    }
    BOOST_TEST(quick == kBlocks / 2);
    BOOST_TEST(root.writes_in_flight() == (acknowledges ? 0u : kDefaultWritesInFlight * 3 / 4));
  }
}

BOOST_AUTO_TEST_CASE(a_quarter_of_a_ring_is_in_flight_and_everything_where_all_blocks_have_slots) {
  for (const std::uint64_t blocks : {100U, 101U}) {
    Relay root = *Relay::create({.rank = Rank{0}, .members = 2, .block_bytes = 1});
    BOOST_REQUIRE(root.set_length(blocks).has_value());
    BOOST_REQUIRE(root.set_memory({.slots = 100}).has_value());
    root.on_available(100);
    BOOST_REQUIRE(root.on_grant(Rank{1}, kWholeMemory).has_value());
    for (BlockWrite write; root.poll_write(write);) continue;
    BOOST_TEST(root.writes_in_flight() == (blocks == 100 ? kDefaultWritesInFlight : 25U));
  }
}

BOOST_AUTO_TEST_CASE(writes_in_flight_stay_within_their_limit) {
  Relay root = *Relay::create({.rank = Rank{0}, .members = 2, .block_bytes = 1, .max_writes_in_flight = 3});
  BOOST_REQUIRE(root.set_length(100).has_value());
  BOOST_REQUIRE(root.set_memory({100}).has_value());
  root.on_available(100);
  BOOST_REQUIRE(root.on_grant(Rank{1}, kWholeMemory).has_value());
  BlockWrite write;
  for (int count = 0; count < 3; ++count) BOOST_TEST(root.poll_write(write));
  BOOST_TEST(!root.poll_write(write));
  root.on_write_complete(Rank{1}, 1);
  BOOST_TEST(root.poll_write(write));
  BOOST_TEST(write.block == 3u);
  BOOST_TEST(root.released_limit() == 0u);
  root.on_write_complete(Rank{1}, 0);
  BOOST_TEST(root.released_limit() == 2u);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
