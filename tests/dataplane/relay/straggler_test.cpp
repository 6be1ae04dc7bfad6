// Tests stragglers. A member that sends to a straggler must omit blocks before the straggler can delay the
// other members.
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/relay/mesh.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(straggler_test)
namespace {

constexpr std::uint32_t kBlock = 4;

/// Returns the options for a group of `others` members and the stragglers after them. Ring buffers have
/// `slots` slots.
MeshOptions group(std::uint32_t others, std::uint32_t stragglers, std::uint64_t blocks, std::uint64_t slots) {
  MeshOptions options{.algorithm = Algorithm::site_trees,
                      .members = others + stragglers,
                      .racks = *Racks::of(std::vector<std::uint32_t>{others, stragglers}),
                      .length = blocks * kBlock,
                      .block_bytes = kBlock,
                      .max_writes_in_flight = 16,
                      .stragglers = stragglers};
  const Schedule schedule(options.algorithm, Rank{1}, options.members, options.racks);
  options.spare_slots = slots - std::min(slots, schedule.minimum_slots());
  return options;
}

BOOST_AUTO_TEST_CASE(all_others_get_every_byte_and_stragglers_hear_of_each_block_once) {
  std::uint64_t omitted = 0;
  const bool held = rc::check([&] {
    const auto others = *rc::gen::inRange<std::uint32_t>(3, 20);
    const auto stragglers = *rc::gen::inRange<std::uint32_t>(1, 6);
    auto options = group(others, stragglers, *rc::gen::inRange<std::uint64_t>(0, 200),
                         *rc::gen::element<std::uint64_t>(0, 16, 40, 1000));
    options.max_writes_in_flight = *rc::gen::element<std::uint32_t>(1, 2, 16);
    options.put_off = *rc::gen::element<std::uint32_t>(1, 5, 200);
    options.slow_per_million = *rc::gen::element<std::uint32_t>(0, 300'000);
    options.overtake_per_million = *rc::gen::element<std::uint32_t>(0, 100'000);
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    Mesh mesh(options);
    const std::string problem = mesh.run();
    if (!problem.empty()) RC_FAIL(problem);
    for (std::uint32_t rank = others; rank < others + stragglers; ++rank) omitted += mesh.omitted(rank);
  });
  BOOST_TEST(held);
  BOOST_TEST(omitted > 0u);
}

BOOST_AUTO_TEST_CASE(a_straggler_holds_up_nobody_and_gets_what_it_can_take) {
  constexpr std::uint64_t kBlocks = 2000, kSlots = 64;
  auto options = group(15, 1, kBlocks, kSlots);
  options.put_off = 20;
  Mesh mesh(options);
  BOOST_TEST(mesh.run_until_others_have_all() == "");
  BOOST_TEST(mesh.omitted(15) > kBlocks / 4);
  BOOST_TEST(mesh.omitted(15) < kBlocks - 50);
  BOOST_TEST(mesh.run_until_quiet() == "");
  BOOST_TEST(mesh.blocks_held(15) == kBlocks);
  BOOST_TEST(mesh.is_complete(15));
}

/// The straggler is only as slow as the random order of events makes it. The ring buffer has space for all
/// blocks that wait for it in such an order.
BOOST_AUTO_TEST_CASE(one_that_keeps_pace_lacks_nothing) {
  auto options = group(15, 1, 2000, 1500);
  options.put_off = 1;
  Mesh mesh(options);
  BOOST_TEST(mesh.run() == "");
  BOOST_TEST(mesh.omitted(15) == 0u);
}

BOOST_AUTO_TEST_CASE(nothing_is_omitted_where_all_blocks_have_slots) {
  for (const std::uint64_t blocks : {1U, 2U, 3U, 64U}) {
    auto options = group(15, 1, blocks, 64);
    options.put_off = 20;
    Mesh mesh(options);
    BOOST_TEST(mesh.run() == "");
    BOOST_TEST(mesh.omitted(15) == 0u);
  }
}

/// The first grant of a straggler may arrive late, or never.
BOOST_AUTO_TEST_CASE(a_straggler_that_grants_nothing_keeps_no_other_from_getting_blocks) {
  constexpr std::uint64_t kBlocks = 40;
  const auto racks = *Racks::of(std::vector<std::uint32_t>{5, 1});
  std::uint32_t senders = 0;
  for (std::uint32_t rank = 1; rank < 5; ++rank) {
    Relay relay = *Relay::create({.algorithm = Algorithm::site_trees,
                                  .rank = Rank{rank},
                                  .members = 6,
                                  .racks = racks,
                                  .block_bytes = kBlock,
                                  .stragglers = 1});
    const auto destinations = relay.schedule().destinations();
    if (destinations.size() < 2 || destinations.back() != Rank{5}) continue;
    ++senders;
    BOOST_REQUIRE(relay.set_length(kBlocks * kBlock).has_value());
    BOOST_REQUIRE(relay.set_memory({.slots = kBlocks}).has_value());
    Rank to{};
    for (BlockGrant grant; relay.poll_grant(to, grant);) {
    }
    for (const Rank other : destinations) {
      if (other == Rank{5}) continue;
      BOOST_REQUIRE(relay.on_grant(other, {.limit = kBlocks, .slots = kBlocks}).has_value());
    }
    for (std::uint64_t step = 0; step < relay.schedule().steps(kBlocks); ++step)
      if (const auto receive = relay.schedule().at(step, kBlocks).receive)
        BOOST_REQUIRE(relay.on_block(receive->peer, immediate_of(0, receive->block), kBlock).has_value());
    std::uint64_t written = 0;
    for (BlockWrite write; relay.poll_write(write); ++written) relay.on_write_complete(write.to, write.block);
    BOOST_TEST(written > 0u);
  }
  BOOST_TEST(senders > 0u);
}

BOOST_AUTO_TEST_CASE(whoever_is_no_straggler_refuses_an_omitted_block) {
  for (const std::uint32_t stragglers : {0U, 1U}) {
    auto relay = Relay::create({.algorithm = Algorithm::chain,
                                .rank = Rank{1},
                                .members = 2,
                                .block_bytes = kBlock,
                                .stragglers = stragglers});
    BOOST_REQUIRE(relay.has_value());
    BOOST_REQUIRE(relay->set_length(3 * kBlock).has_value());
    BOOST_REQUIRE(relay->set_memory({.slots = 3}).has_value());
    Rank to{};
    BlockGrant grant;
    BOOST_REQUIRE(relay->poll_grant(to, grant));
    const auto first = relay->on_block(Rank{0}, immediate_of(0, 0), 0);
    BOOST_TEST(first.has_value() == (stragglers == 1));
    if (!first) {
      BOOST_CHECK(first.error().code == Errc::protocol_error);
      continue;
    }
    BOOST_TEST(relay->is_omitted(0));
    BOOST_TEST(!relay->held().contains(0));
    BOOST_REQUIRE(relay->on_block(Rank{0}, immediate_of(0, 1), kBlock).has_value());
    BOOST_TEST(relay->held().contains(1));
    relay->on_consumed(0);
    BOOST_TEST(relay->released_limit() == 1u);
    BOOST_TEST(!relay->is_omitted(0));
    BOOST_TEST(!relay->on_block(Rank{0}, immediate_of(0, 2), kBlock - 1).has_value());
  }
  BOOST_TEST(!Relay::create({.rank = Rank{1}, .members = 2, .stragglers = 2}).has_value());
}

/// The root sends to two members. The numbers of blocks that wait in its ring buffer show which member is
/// slow.
BOOST_AUTO_TEST_CASE(who_holds_up_a_ring_is_named) {
  struct Case {
    std::uint64_t written_to_first, written_to_second;
    std::vector<Rank> lagging;
  };
  for (const auto& [to_first, to_second, lagging] :
       {Case{0, 0, {}}, {5, 1, {}}, {12, 1, {Rank{2}}}, {1, 12, {Rank{1}}}, {12, 12, {}}}) {
    auto root = Relay::create({.algorithm = Algorithm::sequential,
                               .rank = Rank{0},
                               .members = 3,
                               .block_bytes = kBlock,
                               .max_writes_in_flight = 4});
    BOOST_REQUIRE(root.has_value());
    BOOST_REQUIRE(root->set_length(64 * kBlock).has_value());
    BOOST_REQUIRE(root->set_memory({.slots = 64}).has_value());
    root->on_available(64);
    for (const std::uint32_t to : {1U, 2U})
      BOOST_REQUIRE(root->on_grant(Rank{to}, {.limit = 64, .slots = 64}).has_value());
    std::uint64_t left[] = {0, to_first, to_second};
    for (BlockWrite write; root->poll_write(write);) {
      std::uint64_t& of = left[value_of(write.to)];
      if (of == 0) continue;
      --of;
      root->on_write_complete(write.to, write.block);
    }
    BOOST_TEST((root->find_lagging() == lagging), to_first << " and " << to_second);
  }
}

/// Makes the relay grant all its free space to rank 0. Sets `granted` to the limit of the last grant.
void grant_room(Relay& relay, std::uint64_t& granted) {
  Rank to{};
  for (BlockGrant grant; relay.poll_grant(to, grant);) granted = grant.limit;
}

/// Receives a block from rank 0 and consumes it at once.
void take(Relay& relay, std::uint64_t block) {
  BOOST_REQUIRE(relay.on_block(Rank{0}, immediate_of(0, block), kBlock).has_value());
  relay.on_consumed(block);
}

/// Returns the relay of the middle member of three in a chain. The last member has granted `granted` blocks.
Relay middle_of_chain(std::uint64_t slots, std::uint64_t granted) {
  auto relay =
      Relay::create({.algorithm = Algorithm::chain, .rank = Rank{1}, .members = 3, .block_bytes = kBlock});
  BOOST_REQUIRE(relay.has_value());
  BOOST_REQUIRE(relay->set_length(2000 * kBlock).has_value());
  BOOST_REQUIRE(relay->set_memory({.slots = slots}).has_value());
  Rank to{};
  BlockGrant grant;
  BOOST_REQUIRE(relay->poll_grant(to, grant));
  BOOST_REQUIRE(relay->on_grant(Rank{2}, {.limit = granted, .slots = granted}).has_value());
  return std::move(*relay);
}

/// Tests ring buffers with many slots and with few slots.
BOOST_AUTO_TEST_CASE(a_member_names_a_destination_that_takes_nothing) {
  struct Case {
    std::uint64_t slots, most;
  };
  for (const auto& [slots, most] : {Case{1024, 128}, {256, 32}, {64, 8}, {16, 3}}) {
    Relay relay = middle_of_chain(slots, 2000);
    for (std::uint64_t block = 0; block < slots; ++block) {
      BOOST_REQUIRE(relay.on_block(Rank{0}, immediate_of(0, block), kBlock).has_value());
      BOOST_TEST(relay.find_lagging().size() == (block >= most ? 1u : 0u));
    }
  }
}

/// The path to the destination always has `behind` blocks in flight.
BOOST_AUTO_TEST_CASE(a_destination_behind_a_long_path_that_keeps_pace_holds_up_nobody) {
  constexpr std::uint64_t kSlots = 256;
  for (const std::uint64_t behind : {40U, 90U, 110U}) {
    Relay relay = middle_of_chain(kSlots, 2000);
    std::size_t named = 0;
    std::uint64_t acknowledged = 0, granted = 0;
    for (std::uint64_t block = 0; block < 2000; ++block) {
      grant_room(relay, granted);
      take(relay, block);
      for (BlockWrite write; relay.poll_write(write);) {
      }
      if (block >= behind) relay.on_write_complete(Rank{2}, acknowledged++);
      if (block >= 2 * kSlots) named += relay.find_lagging().size();
    }
    BOOST_TEST((named > 0) == (behind > kSlots * 3 / 8), behind << " behind");
  }
}

/// The straggler stops granting space. Blocks for it leave the ring buffer as soon as they are omitted. The
/// straggler is informed of the omitted blocks when it grants space again. The message is complete only after
/// that. A relay remembers at most 4096 such sends. If more are pending, the relay waits for the straggler.
BOOST_AUTO_TEST_CASE(what_a_straggler_has_not_granted_holds_up_nobody) {
  constexpr std::uint64_t kSlots = 32, kGranted = 16, kMostSends = 4096;
  for (const std::uint64_t blocks : {500U, 6000U}) {
    auto relay = Relay::create({.algorithm = Algorithm::chain,
                                .rank = Rank{1},
                                .members = 3,
                                .block_bytes = kBlock,
                                .stragglers = 1});
    BOOST_REQUIRE(relay.has_value());
    BOOST_REQUIRE(relay->set_length(blocks * kBlock).has_value());
    BOOST_REQUIRE(relay->set_memory({.slots = kSlots}).has_value());
    BlockGrant grant{.limit = kGranted, .slots = kGranted};
    BOOST_REQUIRE(relay->on_grant(Rank{2}, grant).has_value());
    std::uint64_t granted = 0, come = 0, sent = 0, whole = 0;
    const auto go_on = [&] {
      while (true) {
        for (BlockWrite write; relay->poll_write(write); ++sent) {
          BOOST_TEST(write.block == sent);
          whole += write.bytes == kBlock;
          relay->on_write_complete(Rank{2}, write.block);
        }
        grant_room(*relay, granted);
        if (come == granted) return;
        take(*relay, come++);
      }
    };
    go_on();
    BOOST_TEST(sent == kGranted);
    BOOST_TEST(come >= std::min(blocks, kMostSends));
    BOOST_TEST((come == blocks) == (blocks < kMostSends));
    while (grant.limit < blocks) {
      BOOST_TEST(!relay->is_complete());
      grant.limit = std::min(grant.limit + kGranted, blocks);
      BOOST_REQUIRE(relay->on_grant(Rank{2}, grant).has_value());
      go_on();
    }
    BOOST_TEST(sent == blocks);
    BOOST_TEST(whole < blocks / 4);
    BOOST_TEST(relay->is_complete());
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
