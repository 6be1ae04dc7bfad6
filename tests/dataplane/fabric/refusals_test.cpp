// Tests packets that reach the fabric but no connection: packets for a queue pair that does not exist,
// packets with a wrong ICRC, and datagrams that are not RoCE. Each is dropped and counted, and has no other
// effect. Also tests packets that a connection accepts although it expected others. Such packets must not
// change bytes that other connections have written.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "tests/dataplane/fabric/sim_pair.hpp"

BOOST_AUTO_TEST_SUITE(refusals_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::SimPair;

namespace {

SimPair::Options with(bool selective) {
  SimPair::Options options;
  options.queue_pair.selective_repeat = selective;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_answer_to_a_queue_pair_that_is_gone_is_counted) {
  for (const bool selective : {false, true}) {
    SimPair pair(with(selective));
    std::array<std::byte, 64> memory{}, local{};
    const auto region = *pair.fabric(1).register_memory(memory);
    BOOST_REQUIRE(pair.queue_pair(0).post_write({.bytes = local, .remote_key = region->remote_key()}));
    for (const auto& member : pair.members) pair.simulation.wake(member.id);
    pair.simulation.run_until([&] { return pair.network.counters().sent > 0; }, Time{} + seconds(1));
    pair.members[0].queue_pair.reset();
    auto other = *pair.fabric(0).create_queue_pair({});
    pair.members[0].queue_pair = std::move(other);
    pair.simulation.run_until(Time{} + seconds(1));
    BOOST_TEST(pair.fabric(0).counters().unknown_queue_pair > 0u);
    BOOST_TEST((pair.queue_pair(0).state() == QueuePairState::reset));
  }
}

BOOST_AUTO_TEST_CASE(damaged_packets_of_every_kind_are_dropped_and_the_connection_recovers) {
  for (const bool selective : {false, true}) {
    SimPair pair(with(selective));
    std::vector<std::byte> memory(5000), local(5000, std::byte{7}), read(5000), receive(5000);
    const auto region =
        *pair.fabric(1).register_memory(memory, MemoryUse::general, RemoteAccess::write | RemoteAccess::read);
    pair.network.set_faults({.corrupt = 1'000'000});
    BOOST_REQUIRE(pair.queue_pair(1).post_receive({1, receive}));
    BOOST_REQUIRE(pair.queue_pair(0).post_write({.bytes = local, .remote_key = region->remote_key()}));
    BOOST_REQUIRE(pair.queue_pair(0).post_read({1, read, 0, region->remote_key()}));
    BOOST_REQUIRE(pair.queue_pair(0).post_send({.bytes = local}));
    for (const auto& member : pair.members) pair.simulation.wake(member.id);
    pair.simulation.run_until(Time{} + milliseconds(100));
    BOOST_TEST(pair.completions(0).empty());
    BOOST_TEST(pair.fabric(1).counters().icrc_errors > 0u);
    BOOST_TEST(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0}; }));
    pair.network.set_faults({});
    BOOST_REQUIRE(pair.run_until_completed(0, 3));
    for (const Completion& done : pair.completions(0)) BOOST_TEST((done.status == WorkStatus::success));
    BOOST_TEST((memory == local && read == local && receive == local));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_roce_is_counted_by_what_is_wrong_with_it) {
  SimPair pair(with(true));
  const auto throw_in = [&](std::vector<std::byte> bytes) {
    const iovec piece{bytes.data(), bytes.size()};
    const port::TxTrain train{.destination = pair.members[1].port->info().address,
                              .pieces = {&piece, 1},
                              .segment_bytes = static_cast<std::uint32_t>(bytes.size()),
                              .total_bytes = static_cast<std::uint32_t>(bytes.size())};
    BOOST_REQUIRE(pair.members[0].port->send_burst({&train, 1}) == 1u);
    pair.simulation.run_until(pair.simulation.now() + milliseconds(1));
  };
  const auto errors = [&](roce::ParseError error) {
    return pair.fabric(1).counters().parse_errors[static_cast<std::size_t>(error)];
  };
  throw_in(std::vector<std::byte>(5));
  BOOST_TEST(errors(roce::ParseError::too_short) == 1u);
  std::vector<std::byte> packet(20, std::byte{0xFF});
  throw_in(packet);
  BOOST_TEST(errors(roce::ParseError::bad_version) == 1u);
  packet[0] = std::byte{0x15};
  packet[1] = std::byte{0x40};
  throw_in(packet);
  BOOST_TEST(errors(roce::ParseError::unknown_opcode) == 1u);
  packet[0] = std::byte{0x04};
  packet[2] = std::byte{0x12};
  throw_in(packet);
  BOOST_TEST(errors(roce::ParseError::bad_partition) == 1u);
  packet[2] = std::byte{0xFF};
  throw_in(packet);
  BOOST_TEST(pair.fabric(1).counters().unknown_queue_pair == 1u);
}

// Memory is granted to one peer, which does not use it. Another peer then writes into this memory.
BOOST_AUTO_TEST_CASE(an_unused_hint_of_one_queue_pair_does_no_harm_to_what_another_has_written) {
  constexpr std::size_t kBlock = 64 * 1024;
  SimPair pair({});
  std::vector<std::byte> memory(2 * kBlock), first(kBlock, std::byte{1}), second(kBlock, std::byte{2});
  const auto region = *pair.fabric(1).register_memory(memory);
  auto other_from = *pair.fabric(0).create_queue_pair({}), other_to = *pair.fabric(1).create_queue_pair({});
  BOOST_REQUIRE(other_from->connect(other_to->local_blob()));
  BOOST_REQUIRE(other_to->connect(other_from->local_blob()));
  const auto write = [&](QueuePair& from, std::span<const std::byte> bytes, std::uint64_t at) {
    BOOST_REQUIRE(from.post_write({.bytes = bytes,
                                   .remote_address = region->remote_address() + at,
                                   .remote_key = region->remote_key()}));
  };
  pair.queue_pair(1).expect_write(region->remote_key(), region->remote_address(), kBlock);
  write(*other_from, first, 0);
  for (const auto& member : pair.members) pair.simulation.wake(member.id);
  pair.simulation.run_until(Time{} + milliseconds(100));
  BOOST_REQUIRE((std::ranges::equal(std::span(memory).first(kBlock), first)));
  write(pair.queue_pair(0), second, kBlock);
  BOOST_REQUIRE(pair.run_until_completed(0, 1));
  BOOST_TEST(std::ranges::equal(std::span(memory).first(kBlock), first));
  BOOST_TEST(std::ranges::equal(std::span(memory).last(kBlock), second));
}

BOOST_AUTO_TEST_SUITE_END()
