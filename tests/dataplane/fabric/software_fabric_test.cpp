// Tests the software fabric above a port that is full, slow, or closing.
#include "dataplane/fabric/software_fabric.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <map>

#include "dataplane/base/random.hpp"
#include "dataplane/fabric/connection_blob.hpp"
#include "tests/dataplane/fabric/cable.hpp"
#include "tests/dataplane/fabric/sim_pair.hpp"

BOOST_AUTO_TEST_SUITE(software_fabric_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::Cable;
using testing::CablePort;

namespace {

std::size_t containing(const CablePort& port, std::size_t from, std::byte value) {
  std::size_t found = 0;
  for (std::size_t i = from; i < port.sent.size(); ++i) {
    const std::array<std::byte, 64> run = [&] {
      std::array<std::byte, 64> r;
      r.fill(value);
      return r;
    }();
    found +=
        std::search(port.sent[i].begin(), port.sent[i].end(), run.begin(), run.end()) != port.sent[i].end()
            ? 1
            : 0;
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(
    memory_is_the_callers_again_when_its_completion_was_polled_though_a_retransmission_waits) {
  Cable cable;
  auto [at_a, at_b] = cable.connect();
  std::vector<std::byte> target(8192), source(1000, std::byte{0x11}), other(1000, std::byte{0x22});
  const auto region = *cable.b.fabric.register_memory(target);
  const auto write = [&](std::uint64_t id, std::span<const std::byte> bytes) {
    BOOST_REQUIRE(at_a->post_write({.work_id = id,
                                    .bytes = bytes,
                                    .remote_address = region->remote_address() + id * 1000,
                                    .remote_key = region->remote_key()}));
  };
  write(0, source);
  cable.a.port.readable = false;  // This delays the answer.
  cable.turn(3);
  cable.a.port.room = 0;
  cable.now = cable.now + milliseconds(60);
  write(1, other);
  // In this turn, the port is full. A retransmission and a new work request wait for it.
  cable.turn();
  cable.a.port.readable = true;
  cable.turn();
  std::array<Completion, 4> done;
  BOOST_REQUIRE(at_a->poll_completions(done) == 1u);
  BOOST_TEST(done[0].work_id == 0u);
  std::ranges::fill(source, std::byte{0xEE});
  const std::size_t before = cable.a.port.sent.size();
  cable.a.port.room = SIZE_MAX;
  for (int i = 0; i < 40; ++i) {
    cable.now = cable.now + milliseconds(2);
    cable.turn();
  }
  BOOST_TEST(containing(cable.a.port, before, std::byte{0xEE}) == 0u);
  BOOST_TEST(containing(cable.a.port, before, std::byte{0x22}) > 0u);
  BOOST_REQUIRE(at_a->poll_completions(done) == 1u);
  BOOST_TEST(done[0].work_id == 1u);
  BOOST_TEST((target[0] == std::byte{0x11} && target[1000] == std::byte{0x22}));
}

BOOST_AUTO_TEST_CASE(a_block_that_waits_for_a_full_port_still_leaves_when_it_has_reached_somebody_else) {
  Cable cable;
  auto [to_one, one] = cable.connect();
  auto [to_other, other] = cable.connect();
  std::vector<std::byte> target(2000);
  const std::vector<std::byte> block(1000, std::byte{0x11});
  const auto region = *cable.b.fabric.register_memory(target);
  BOOST_REQUIRE(to_one->post_write({.bytes = block, .remote_key = region->remote_key()}));
  cable.turn(2);
  cable.a.port.room = 0;
  BOOST_REQUIRE(
      to_other->post_write({.bytes = block, .remote_address = 1000, .remote_key = region->remote_key()}));
  cable.turn();
  Completion completion;
  BOOST_TEST(to_one->poll_completions({&completion, 1}) == 1u);
  cable.a.port.room = SIZE_MAX;
  cable.turn(3);  // These turns take far less time than a timeout.
  BOOST_TEST(to_other->poll_completions({&completion, 1}) == 1u);
  BOOST_TEST(cable.a.fabric.connection_counters().retransmitted == 0u);
}

BOOST_AUTO_TEST_CASE(no_more_reads_are_under_way_than_the_peer_takes) {
  for (const std::uint8_t most : std::array<std::uint8_t, 3>{1, 3, 16}) {
    Cable cable;
    auto [at_a, at_b] = cable.connect({.max_rd_atomic = 8}, {.max_rd_atomic = most});
    std::vector<std::byte> source(800), target(800);
    const auto region =
        *cable.b.fabric.register_memory(source, MemoryUse::general, RemoteAccess::read | RemoteAccess::write);
    for (std::size_t i = 0; i < 8; ++i)
      BOOST_REQUIRE(at_a->post_read({.bytes = std::span(target).subspan(i * 100, 100),
                                     .remote_address = region->remote_address() + i * 100,
                                     .remote_key = region->remote_key()}));
    cable.a.fabric.progress(cable.now);
    BOOST_TEST(cable.a.port.sent.size() == std::min<std::size_t>(most, 8));
    cable.turn(40);
    std::array<Completion, 8> done;
    BOOST_TEST(at_a->poll_completions(done) == 8u);
  }
}

BOOST_AUTO_TEST_CASE(destroying_a_queue_pair_costs_the_others_none_of_their_waiting_packets) {
  Cable cable;
  auto [stays_a, stays_b] = cable.connect();
  auto [goes_a, goes_b] = cable.connect();
  std::vector<std::byte> kept(500, std::byte{0x11}), gone(500, std::byte{0x22}), receive(500);
  BOOST_REQUIRE(stays_b->post_receive({.work_id = 7, .bytes = receive}));
  cable.a.port.room = 0;
  BOOST_REQUIRE(goes_a->post_send({.work_id = 1, .bytes = gone}));
  BOOST_REQUIRE(stays_a->post_send({.work_id = 2, .bytes = kept}));
  cable.turn();
  goes_a.reset();
  std::ranges::fill(gone, std::byte{0xEE});
  cable.a.port.room = SIZE_MAX;
  cable.turn(2);
  BOOST_TEST(containing(cable.a.port, 0, std::byte{0xEE}) + containing(cable.a.port, 0, std::byte{0x22}) ==
             0u);
  std::array<Completion, 1> done;
  BOOST_TEST(stays_b->poll_completions(done) == 1u);
}

BOOST_AUTO_TEST_CASE(a_port_that_takes_one_train_at_a_time_delivers_everything_in_order) {
  Cable cable;
  auto [at_a, at_b] = cable.connect();
  std::vector<std::byte> target(1 << 20), source(1 << 20);
  Random random(5);
  for (std::byte& b : source) b = static_cast<std::byte>(random.next());
  const auto region = *cable.b.fabric.register_memory(target);
  for (std::size_t i = 0; i < 64; ++i) {
    BOOST_REQUIRE(at_a->post_write({.work_id = i,
                                    .bytes = std::span(source).subspan(i << 14, 1 << 14),
                                    .remote_address = region->remote_address() + (i << 14),
                                    .remote_key = region->remote_key()}));
  }
  std::uint64_t completed = 0;
  for (int i = 0; i < 5000 && completed < 64; ++i) {
    cable.a.port.room = cable.b.port.room = static_cast<std::size_t>(i % 2);
    cable.turn();
    std::array<Completion, 8> done;
    for (std::size_t n = at_a->poll_completions(done), k = 0; k < n; ++k)
      BOOST_TEST(done[k].work_id == completed++);
  }
  BOOST_TEST(completed == 64u);
  BOOST_TEST((source == target));
}

BOOST_AUTO_TEST_CASE(work_that_was_posted_wants_a_turn_at_once) {
  Cable cable;
  auto [at_a, at_b] = cable.connect();
  cable.turn();
  BOOST_TEST((cable.a.fabric.next_deadline() > cable.now));
  std::vector<std::byte> bytes(10);
  BOOST_REQUIRE(at_a->post_send({.work_id = 1, .bytes = bytes}));
  BOOST_TEST((cable.a.fabric.next_deadline() <= cable.now));
}

BOOST_AUTO_TEST_CASE(a_receive_that_a_write_waited_for_wants_a_turn_at_once) {
  Cable cable;
  auto [at_a, at_b] = cable.connect();
  std::vector<std::byte> source(64), target(64);
  const auto region = *cable.b.fabric.register_memory(target);
  BOOST_REQUIRE(at_a->post_write({.work_id = 1,
                                  .bytes = source,
                                  .remote_address = region->remote_address(),
                                  .remote_key = region->remote_key(),
                                  .immediate = 9}));
  cable.turn(2);
  BOOST_TEST((cable.b.fabric.next_deadline() > cable.now));
  BOOST_REQUIRE(at_b->post_receive({.work_id = 2, .bytes = {}}));
  BOOST_TEST((cable.b.fabric.next_deadline() <= cable.now));
  cable.turn(3);
  std::array<Completion, 1> done;
  BOOST_TEST(at_a->poll_completions(done) == 1u);
}

// The test advances the time only to the deadlines that the fabrics report. If a fabric failed to report a
// deadline, the test would not finish, because nothing else wakes the fabric.
BOOST_AUTO_TEST_CASE(fabrics_that_sleep_until_their_deadlines_finish_in_spite_of_loss) {
  Cable cable;
  std::vector<std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>> pairs;
  for (int i = 0; i < 12; ++i) pairs.push_back(cable.connect());
  std::vector<std::byte> source(3000, std::byte{0x33}), target(3000);
  Random random(11);
  const auto lossy = [&] { return random.next() % 6 == 0; };
  cable.a.port.loses = cable.b.port.loses = lossy;
  std::size_t posted = 0, sent = 0, received = 0;
  const auto poll = [](QueuePair& queue_pair, std::size_t& count) {
    std::array<Completion, 8> done;
    for (std::size_t n = queue_pair.poll_completions(done), i = 0; i < n; ++i) {
      BOOST_TEST((done[i].status == WorkStatus::success));
      ++count;
    }
  };
  for (int round = 0; round < 5; ++round) {
    for (auto& [at_a, at_b] : pairs) {
      if (random.next() % 2 == 0) continue;
      BOOST_REQUIRE(at_b->post_receive({.work_id = 1, .bytes = target}));
      BOOST_REQUIRE(at_a->post_send({.work_id = 2, .bytes = source}));
      ++posted;
    }
    while (sent < posted || received < posted) {
      if (!cable.a.port.has_arrivals() && !cable.b.port.has_arrivals()) {
        const Time due = std::min(cable.a.fabric.next_deadline(), cable.b.fabric.next_deadline());
        BOOST_REQUIRE((due != Time::never()));
        cable.now = std::max(cable.now, due);
      }
      cable.turn();
      for (auto& [at_a, at_b] : pairs) {
        poll(*at_a, sent);
        poll(*at_b, received);
      }
    }
  }
  BOOST_TEST(posted > 0u);
}

BOOST_AUTO_TEST_CASE(depths_and_path_mtus_that_make_no_sense_are_refused_or_rounded) {
  Cable cable;
  for (const QueuePairOptions& bad :
       {QueuePairOptions{.send_depth = 0}, QueuePairOptions{.receive_depth = 0},
        QueuePairOptions{.send_depth = UINT32_MAX}, QueuePairOptions{.receive_depth = UINT32_MAX}}) {
    const auto made = cable.a.fabric.create_queue_pair(bad);
    BOOST_REQUIRE(!made);
    BOOST_TEST(static_cast<int>(made.error().code) == static_cast<int>(Errc::invalid_argument));
  }
  const auto odd = cable.a.fabric.create_queue_pair({.path_mtu = 1001});
  BOOST_REQUIRE(odd);
  BOOST_TEST(decode_connection((*odd)->local_blob())->path_mtu == 1000u);
}

BOOST_AUTO_TEST_CASE(rdma_cm_tells_each_side_where_the_other_begins) {
  Cable cable;
  auto at_a = *cable.a.fabric.create_queue_pair({.selective_repeat = false, .path_mtu = 1024});
  auto at_b = *cable.b.fabric.create_queue_pair({.selective_repeat = false, .path_mtu = 1024});
  const auto told = [](const QueuePair& queue_pair) {
    ConnectionInfo info = *decode_connection(queue_pair.local_blob());
    info.foreign = info.psn_for_other = true;
    info.bulk_port = info.shared.port;
    return info;
  };
  const ConnectionInfo of_a = told(*at_a), of_b = told(*at_b);
  BOOST_REQUIRE(at_a->connect(encode(of_b)));
  BOOST_REQUIRE(at_b->connect(encode(of_a)));
  std::vector<std::byte> bytes(8), receive(8);
  BOOST_REQUIRE(at_b->post_receive({.work_id = 1, .bytes = receive}));
  BOOST_REQUIRE(at_a->post_send({.work_id = 2, .bytes = bytes}));
  cable.turn(3);
  BOOST_REQUIRE(!cable.a.port.sent.empty());
  BOOST_TEST((roce::parse_packet(cable.a.port.sent[0])->bth.psn == of_b.first_psn));
  std::array<Completion, 1> done;
  BOOST_TEST(at_b->poll_completions(done) == 1u);
}

// A driver should deliver no empty datagrams. If a driver does, this must cause no harm, with or without a
// scatter list.
BOOST_AUTO_TEST_CASE(a_driver_that_hands_up_an_empty_datagram_does_no_harm) {
  Cable cable;
  auto [at_a, at_b] = cable.connect();
  std::vector<std::byte> target(100), source(100, std::byte{0x11});
  const auto region = *cable.b.fabric.register_memory(target);
  for (const bool planned : {false, true}) {
    cable.b.port.says_planned = planned;
    cable.b.port.deliver(cable.a.port.info().address, {});
    cable.turn();
  }
  BOOST_REQUIRE(at_a->post_write(
      {.bytes = source, .remote_address = region->remote_address(), .remote_key = region->remote_key()}));
  cable.turn(3);
  BOOST_TEST((target == source));
}

// The tests from here on have flows that several queue pairs share.

BOOST_AUTO_TEST_CASE(queue_pairs_beyond_the_flows_there_may_be_share_those_there_are) {
  Cable cable({.bulk_flows = 3}, {.bulk_flows = 1});
  using Pair = std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>;
  std::vector<Pair> pairs;
  for (int i = 0; i < 8; ++i) pairs.push_back(cable.connect());
  BOOST_TEST(cable.a.port.open_flows == 3u);
  BOOST_TEST(cable.b.port.open_flows == 1u);
  std::map<std::uint16_t, int> sharing;
  std::uint64_t windows = 0;
  for (const Pair& pair : pairs) {
    const auto info = *decode_connection(pair.first->local_blob());
    ++sharing[info.bulk_port];
    windows += info.receive_window;
  }
  for (const auto& [port, queue_pairs] : sharing) BOOST_TEST((queue_pairs == 2 || queue_pairs == 3));
  BOOST_TEST(windows < 8 * std::uint64_t{cable.a.port.info().receive_buffer_bytes});

  // When a queue pair is destroyed, its flow becomes free for others. The remaining queue pairs keep their
  // flows.
  const std::uint16_t kept = decode_connection(pairs[0].first->local_blob())->bulk_port;
  pairs.erase(pairs.begin() + 1, pairs.end());
  BOOST_TEST(cable.a.port.open_flows == 1u);
  BOOST_TEST(decode_connection(pairs[0].first->local_blob())->bulk_port == kept);
  pairs.push_back(cable.connect());
  BOOST_TEST(cable.a.port.open_flows == 2u);
  pairs.clear();
  BOOST_TEST(cable.a.port.open_flows == 0u);
  BOOST_TEST(cable.b.port.open_flows == 0u);
}

BOOST_AUTO_TEST_CASE(queue_pairs_share_what_the_port_has_when_it_has_no_more) {
  Cable cable;
  cable.a.port.most_flows = 2;
  using Pair = std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>;
  std::vector<Pair> pairs;
  for (int i = 0; i < 5; ++i) pairs.push_back(cable.connect());
  BOOST_TEST(cable.a.port.open_flows == 2u);
  pairs.clear();
  BOOST_TEST(cable.a.port.open_flows == 0u);
  cable.a.port.most_flows = 0;
  const auto none = cable.a.fabric.create_queue_pair({});
  BOOST_TEST((!none && none.error().code == Errc::resource_limit));
}

// On a shared flow, the port scatters a packet before its peer is known. So the packet of one peer may be put
// into memory that was expected for another peer.
BOOST_AUTO_TEST_CASE(nothing_is_scattered_where_a_peer_may_read_once_several_share_a_flow) {
  const auto in_place = [](RemoteAccess access, std::uint32_t bulk_flows) {
    testing::SimPair world({.bulk_flows = bulk_flows});
    constexpr std::size_t kBytes = 500'000;
    std::vector<std::byte> source(kBytes, std::byte{0x77}), target(kBytes);
    const auto region = *world.fabric(1).register_memory(target, MemoryUse::general, access);
    const auto from = *world.fabric(0).create_queue_pair({}), to = *world.fabric(1).create_queue_pair({});
    {
      // Late packets of this destroyed queue pair may still arrive.
      const auto another = *world.fabric(1).create_queue_pair({});
    }
    BOOST_REQUIRE((from->connect(to->local_blob()) && to->connect(from->local_blob())));
    BOOST_REQUIRE(from->post_write({.bytes = source, .remote_key = region->remote_key()}));
    std::array<Completion, 1> done;
    BOOST_REQUIRE(world.run_until([&] { return from->poll_completions(done) == 1; }));
    BOOST_TEST((target == source));
    return world.fabric(1).counters().packets_in_place > 0;
  };
  BOOST_TEST(in_place(RemoteAccess::write, 1));
  BOOST_TEST(in_place(RemoteAccess::write | RemoteAccess::read, 2));
  BOOST_TEST(!in_place(RemoteAccess::write | RemoteAccess::read, 1));
  BOOST_TEST(!in_place(RemoteAccess::write | RemoteAccess::atomic, 1));
}

BOOST_AUTO_TEST_CASE(a_queue_pair_for_small_messages_has_no_flow_of_its_own) {
  Cable cable;
  auto [at_a, at_b] = cable.connect({.bulk = false}, {.bulk = false});
  BOOST_TEST(cable.a.port.open_flows == 0u);
  BOOST_TEST(decode_connection(at_a->local_blob())->bulk_port == cable.a.port.info().address.port);
  std::vector<std::byte> message(3000, std::byte{0x33}), inbox(3000), target(30'000),
      block(30'000, std::byte{7});
  const auto region = *cable.b.fabric.register_memory(target);
  BOOST_REQUIRE(at_b->post_receive({.work_id = 1, .bytes = inbox}));
  BOOST_REQUIRE(at_a->post_send({.work_id = 2, .bytes = message}));
  BOOST_REQUIRE(at_a->post_write({.work_id = 3, .bytes = block, .remote_key = region->remote_key()}));
  cable.turn(5);
  std::array<Completion, 4> done;
  BOOST_TEST(at_a->poll_completions(done) == 2u);
  BOOST_TEST((inbox == message && target == block));
}

BOOST_AUTO_TEST_CASE(destroying_a_queue_pair_costs_the_others_of_its_flow_none_of_their_waiting_packets) {
  Cable cable({.bulk_flows = 1}, {.bulk_flows = 1});
  auto [stays_a, stays_b] = cable.connect();
  auto [goes_a, goes_b] = cable.connect();
  std::vector<std::byte> kept(500, std::byte{0x11}), gone(500, std::byte{0x22}), receive(500);
  BOOST_REQUIRE(stays_b->post_receive({.work_id = 7, .bytes = receive}));
  cable.a.port.room = 0;
  BOOST_REQUIRE(goes_a->post_send({.work_id = 1, .bytes = gone}));
  BOOST_REQUIRE(stays_a->post_send({.work_id = 2, .bytes = kept}));
  cable.turn();
  goes_a.reset();
  cable.a.port.room = SIZE_MAX;
  cable.turn(2);
  BOOST_TEST(containing(cable.a.port, 0, std::byte{0x22}) == 0u);
  // The data arrived in the first packet that was sent. There was no time for a retransmission.
  BOOST_TEST((receive == kept));
}

// On a shared flow, the fabric predicts from which peer the next packets come. A wrong prediction costs a
// copy and has no other effect.
BOOST_AUTO_TEST_CASE(writers_that_share_a_flow_all_reach_their_memory_whatever_the_network_loses) {
  for (const bool encrypt : {false, true}) {
    testing::SimPair world({.encrypt = encrypt, .bulk_flows = 1});
    world.network.set_faults({.loss = 20'000});
    constexpr std::size_t kPairs = 4, kWrites = 12, kBytes = 50'000;
    std::array<std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>, kPairs> pairs;
    std::vector<std::vector<std::byte>> sources, targets(kPairs, std::vector<std::byte>(kWrites * kBytes));
    std::vector<std::unique_ptr<MemoryRegion>> regions;
    for (std::size_t i = 0; i < kPairs; ++i) {
      auto& [from, to] = pairs[i];
      from = *world.fabric(0).create_queue_pair({});
      to = *world.fabric(1).create_queue_pair({});
      BOOST_REQUIRE((from->connect(to->local_blob()) && to->connect(from->local_blob())));
      sources.emplace_back(kWrites * kBytes, static_cast<std::byte>(0x50 + i));
      regions.push_back(*world.fabric(1).register_memory(targets[i]));
      to->expect_write(regions[i]->remote_key(), regions[i]->remote_address(), kWrites * kBytes);
      for (std::size_t write = 0; write < kWrites; ++write)
        BOOST_REQUIRE(from->post_write({.bytes = std::span(sources[i]).subspan(write * kBytes, kBytes),
                                        .remote_address = regions[i]->remote_address() + write * kBytes,
                                        .remote_key = regions[i]->remote_key()}));
    }
    std::size_t completed = 0;
    const bool all = world.run_until([&] {
      for (auto& [from, to] : pairs) {
        std::array<Completion, kWrites> done;
        for (const Completion& one : std::span(done).first(from->poll_completions(done)))
          completed += one.status == WorkStatus::success ? 1 : 0;
      }
      return completed == kPairs * kWrites;
    });
    BOOST_TEST(all);
    for (std::size_t i = 0; i < kPairs; ++i) BOOST_TEST((targets[i] == sources[i]));
    const auto& counted = world.fabric(1).counters();
    BOOST_TEST_MESSAGE(counted.packets_in_place << " in place, " << counted.packets_repaired << " repaired");
    BOOST_TEST(counted.packets_in_place > 0u);
    BOOST_TEST(counted.packets_repaired > 0u);
    BOOST_TEST(world.fabric(0).connection_counters().retransmitted > 0u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
