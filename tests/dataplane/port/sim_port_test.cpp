#include "dataplane/port/sim_port.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <optional>

BOOST_AUTO_TEST_SUITE(sim_port_test)

using namespace rdmc;
using namespace rdmc::port;

namespace {

/// A planner that puts trains into the memory that the test has given.
struct Planner final : ScatterPlanner {
  std::vector<iovec> scatter_list;
  std::vector<std::uint32_t> asked;
  std::size_t plan(FlowId, std::uint32_t ahead, std::span<iovec> pieces) override {
    asked.push_back(ahead);
    if (ahead > 0) return 0;
    std::copy(scatter_list.begin(), scatter_list.end(), pieces.begin());
    return scatter_list.size();
  }
};

std::vector<std::byte> flatten(const RxTrain& train) {
  std::vector<std::byte> bytes;
  for (const iovec& piece : train.pieces) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), from, from + piece.iov_len);
  }
  return bytes;
}

struct Received {
  FlowId flow;
  Address source;
  std::uint32_t segment_bytes;
  bool planned;
  std::vector<std::byte> bytes;
};

/// A process that receives everything that has arrived, in each of its turns.
struct Member final : sim::Process {
  std::optional<SimPort> port;
  Planner planner;
  std::vector<Received> received;
  std::size_t burst = 16;
  int turns = 0;

  void run(Time) override {
    ++turns;
    if (!port) return;
    std::vector<RxTrain> trains(burst);
    while (const std::size_t count = port->receive_burst(planner, trains))
      for (const RxTrain& train : std::span(trains).first(count))
        received.push_back({train.flow, train.source, train.segment_bytes, train.planned, flatten(train)});
  }
  Time next_deadline() override { return Time::never(); }
};

struct World {
  explicit World(const SimPortOptions& options = {}, Duration wake_latency = milliseconds(1))
      : network(simulation) {
    for (Member* member : {&a, &b}) {
      const auto host = network.add_host({.link = {.queue_bytes = 16 << 20}, .address = {}});
      ids.push_back(simulation.add_process(host, *member, {.wake_latency = wake_latency}));
      member->port.emplace(network, ids.back(), options);
    }
  }
  bool send(std::span<const std::byte> bytes, std::uint32_t segment_bytes, std::optional<Address> to = {}) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const TxTrain train{.destination = to.value_or(b.port->info().address),
                        .pieces = {&piece, 1},
                        .segment_bytes = segment_bytes,
                        .total_bytes = static_cast<std::uint32_t>(bytes.size())};
    return a.port->send_burst({&train, 1}) == 1;
  }
  void finish() {
    while (simulation.step()) continue;
  }

  sim::Simulation simulation{1};
  sim::Network network;
  Member a, b;
  std::vector<sim::ProcessId> ids;
};

std::vector<std::byte> counting(std::size_t size, unsigned start = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(start + i * 7 + i / 256);
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_train_is_cut_into_datagrams_and_merged_again) {
  World world;
  const auto bytes = counting(10 * 1000 + 300);
  BOOST_TEST(world.send(bytes, 1000));
  world.finish();
  BOOST_REQUIRE(world.b.received.size() == 1u);
  BOOST_TEST((world.b.received[0].bytes == bytes));
  BOOST_TEST(world.b.received[0].segment_bytes == 1000u);
  BOOST_TEST((world.b.received[0].source == world.a.port->info().address));
  BOOST_TEST(world.a.port->counters().datagrams_sent == 11u);
  BOOST_TEST(world.b.port->counters().datagrams_received == 11u);
  BOOST_TEST(world.b.port->counters().trains_received == 1u);
}

BOOST_AUTO_TEST_CASE(without_offload_every_datagram_comes_alone) {
  World world({.receive_train_segments = 1});
  BOOST_TEST(world.send(counting(3000), 1000));
  world.finish();
  BOOST_TEST(world.b.received.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_train_ends_where_the_size_or_the_source_changes) {
  World world;
  world.send(counting(2000), 1000);  // The segments have 1000 and 1000 bytes.
  // The segments have 1000 and 500 bytes. The shorter segment ends the merged train.
  world.send(counting(1500), 1000);
  world.send(counting(500), 500);  // The segment has 500 bytes.
  world.send(counting(700), 700);  // The segment has 700 bytes. It is larger, so it cannot be merged.
  world.finish();
  std::vector<std::size_t> sizes;
  for (const auto& train : world.b.received) sizes.push_back(train.bytes.size());
  BOOST_TEST((sizes == std::vector<std::size_t>{3500, 500, 700}));
}

BOOST_AUTO_TEST_CASE(gathered_pieces_arrive_as_the_bytes_they_are_whatever_their_cuts) {
  BOOST_TEST(rc::check([](std::uint64_t seed) {
    Random random(seed);
    World world;
    const auto bytes = counting(random.between(1, 20'000));
    std::vector<iovec> pieces;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t part = std::min<std::size_t>(random.between(0, 3000), bytes.size() - at);
      pieces.push_back({const_cast<std::byte*>(bytes.data()) + at, part});
      at += part;
    }
    const TxTrain train{.destination = world.b.port->info().address,
                        .pieces = pieces,
                        .segment_bytes = static_cast<std::uint32_t>(random.between(400, 1472)),
                        .total_bytes = static_cast<std::uint32_t>(bytes.size())};
    RC_ASSERT(world.a.port->send_burst({&train, 1}) == 1u);
    world.finish();
    std::vector<std::byte> all;
    for (const auto& received : world.b.received)
      all.insert(all.end(), received.bytes.begin(), received.bytes.end());
    RC_ASSERT(all == bytes);
  }));
}

BOOST_AUTO_TEST_CASE(a_planned_train_lands_where_the_planner_said_and_the_rest_in_the_ports_memory) {
  World world;
  const FlowId flow = *world.b.port->open_flow();
  Address bulk = world.b.port->info().address;
  bulk.port = world.b.port->udp_port(flow);
  const auto bytes = counting(3000);
  std::vector<std::byte> header(100), payload(2000);
  world.b.planner.scatter_list = {{header.data(), header.size()}, {payload.data(), payload.size()}};
  world.send(bytes, 1000, bulk);
  world.finish();
  BOOST_REQUIRE(world.b.received.size() == 1u);
  const Received& train = world.b.received[0];
  BOOST_TEST(train.planned);
  BOOST_TEST((train.flow == flow));
  BOOST_TEST((train.bytes == bytes));
  BOOST_TEST(std::equal(header.begin(), header.end(), bytes.begin()));
  BOOST_TEST(std::equal(payload.begin(), payload.end(), bytes.begin() + 100));
  // The port called the planner once more before it found that no further datagram had arrived.
  BOOST_TEST((world.b.planner.asked == std::vector<std::uint32_t>{0, 1}));
}

BOOST_AUTO_TEST_CASE(a_scatter_list_larger_than_the_train_is_cut_to_it) {
  World world;
  const FlowId flow = *world.b.port->open_flow();
  Address bulk = world.b.port->info().address;
  bulk.port = world.b.port->udp_port(flow);
  std::vector<std::byte> header(10), payload(500), untouched(500, std::byte{0xEE});
  world.b.planner.scatter_list = {
      {header.data(), header.size()}, {payload.data(), 500}, {untouched.data(), 500}};
  world.send(counting(200), 1000, bulk);
  world.finish();
  BOOST_REQUIRE(world.b.received.size() == 1u);
  BOOST_TEST((world.b.received[0].bytes == counting(200)));
  BOOST_TEST(
      std::all_of(untouched.begin(), untouched.end(), [](std::byte b) { return b == std::byte{0xEE}; }));
}

BOOST_AUTO_TEST_CASE(the_shared_flow_is_never_planned) {
  World world;
  std::vector<std::byte> memory(2000);
  world.b.planner.scatter_list = {{memory.data(), memory.size()}};
  world.send(counting(800), 1000);
  world.finish();
  BOOST_REQUIRE(world.b.received.size() == 1u);
  BOOST_TEST(!world.b.received[0].planned);
  BOOST_TEST(world.b.planner.asked.empty());
}

BOOST_AUTO_TEST_CASE(an_empty_datagram_is_counted_and_not_handed_up) {
  World world;
  world.send({}, 1000);
  world.send(counting(800), 1000);
  world.send({}, 1000);
  world.finish();
  BOOST_REQUIRE(world.b.received.size() == 1u);
  BOOST_TEST((world.b.received[0].bytes == counting(800)));
  BOOST_TEST(world.b.port->counters().datagrams_received == 3u);
}

BOOST_AUTO_TEST_CASE(a_full_receive_buffer_drops_and_says_so) {
  World world({.receive_buffer_bytes = 10'000});
  world.simulation.run_until(Time{milliseconds(2).ns});
  world.simulation.pause(world.ids[1]);
  for (int i = 0; i < 30; ++i) world.send(counting(1000), 1000);
  world.finish();
  world.simulation.resume(world.ids[1]);
  world.finish();
  BOOST_TEST(world.b.port->counters().datagrams_received == 10u);
  BOOST_TEST(world.b.port->counters().receive_dropped == 20u);
  BOOST_TEST(world.simulation.faults()[sim::Fault::receive_full] == 20u);
}

BOOST_AUTO_TEST_CASE(a_full_send_buffer_refuses_and_wakes_the_sender_when_there_is_room) {
  World world({.send_buffer_bytes = 50'000}, Duration{});
  world.finish();
  const int turns = world.a.turns;
  int taken = 0;
  while (world.send(counting(10'000), 1000)) ++taken;
  BOOST_TEST(taken >= 4);
  BOOST_TEST(taken <= 6);
  BOOST_TEST(world.a.port->counters().send_refused == 1u);
  world.finish();
  BOOST_TEST(world.a.turns == turns + 1);
  BOOST_TEST(world.b.port->counters().datagrams_received == static_cast<std::uint64_t>(taken) * 10);
  BOOST_TEST(world.send(counting(10'000), 1000));
}

BOOST_AUTO_TEST_CASE(a_datagram_larger_than_the_mtu_fails_as_a_socket_would) {
  World world({.mtu = 1500});
  BOOST_TEST(world.send(counting(1472), 1472));
  BOOST_TEST(world.send(counting(1473), 1473));  // The train is accepted and dropped.
  world.finish();
  BOOST_TEST(world.a.port->counters().send_failed == 1u);
  BOOST_TEST(world.b.received.size() == 1u);
}

BOOST_AUTO_TEST_CASE(flows_have_ports_of_their_own_and_close) {
  World world;
  const FlowId one = *world.b.port->open_flow(), two = *world.b.port->open_flow();
  BOOST_TEST(world.b.port->udp_port(one) != world.b.port->udp_port(two));
  BOOST_TEST(world.b.port->udp_port(kSharedFlow) == 4791);
  Address to = world.b.port->info().address;
  to.port = world.b.port->udp_port(two);
  world.send(counting(100), 100, to);
  world.finish();
  BOOST_REQUIRE(world.b.received.size() == 1u);
  BOOST_TEST((world.b.received[0].flow == two));
  world.b.port->close_flow(two);
  world.send(counting(100), 100, to);
  world.finish();
  BOOST_TEST(world.b.received.size() == 1u);
  BOOST_TEST(world.network.counters().unreachable == 1u);
}

BOOST_AUTO_TEST_CASE(two_ports_of_one_host_talk_over_loopback) {
  World world;
  Member neighbour;
  const auto id = world.simulation.add_process(world.simulation.host(world.ids[0]), neighbour);
  neighbour.port.emplace(world.network, id, SimPortOptions{});
  BOOST_TEST(neighbour.port->udp_port(kSharedFlow) != 4791);
  world.send(counting(100), 100, neighbour.port->info().address);
  world.finish();
  BOOST_TEST(neighbour.received.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
