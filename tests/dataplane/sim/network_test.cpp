#include "dataplane/sim/network.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(network_test)

using namespace rdmc;
using namespace rdmc::sim;

namespace {

constexpr std::uint16_t kPort = 4791;
constexpr std::uint64_t kTenGigabit = 10'000'000'000;

struct Idle final : Process {
  void run(Time) override {}
  Time next_deadline() override { return Time::never(); }
};

struct Inbox final : Socket {
  struct Message {
    Time at;
    std::uint32_t number;
    std::uint32_t size;
    bool congestion_experienced;
    bool intact;
  };
  explicit Inbox(Network& n) : network(n) {}
  void deliver(DatagramId id) override {
    Datagram& datagram = network[id];
    Message message{network.simulation().now(), 0, datagram.size, datagram.congestion_experienced, true};
    std::memcpy(&message.number, datagram.memory.get(), sizeof message.number);
    for (std::size_t i = sizeof message.number; i < datagram.size; ++i)
      message.intact = message.intact && datagram.memory[i] == std::byte{0x5A};
    messages.push_back(message);
    network.release(id);
  }
  Network& network;
  std::vector<Message> messages;
};

/// Hosts, each with one idle process and one socket.
struct World {
  explicit World(std::uint64_t seed = 1) : simulation(seed), network(simulation) {}

  HostId add(const LinkOptions& link, RackId rack = RackId{0}) {
    const HostId host = network.add_host({.link = link, .rack = rack, .address = {}});
    processes.push_back(simulation.add_process(host, idle));
    inboxes.push_back(std::make_unique<Inbox>(network));
    BOOST_REQUIRE(network.bind(processes.back(), kPort, *inboxes.back()));
    return host;
  }
  void send(HostId from, HostId to, std::uint32_t size, std::uint32_t number, bool ecn = false) {
    const DatagramId id = network.allocate(size);
    Datagram& datagram = network[id];
    std::memset(datagram.memory.get(), 0x5A, size);
    std::memcpy(datagram.memory.get(), &number, sizeof number);
    datagram.source = address(from);
    datagram.destination = address(to);
    datagram.ecn_capable = ecn;
    network.send(from, id);
  }
  Address address(HostId host) {
    Address address = network.address(host);
    address.port = kPort;
    return address;
  }
  std::vector<Inbox::Message>& received(HostId host) { return inboxes[value_of(host)]->messages; }
  void finish() {
    while (simulation.step()) continue;
  }

  Simulation simulation;
  Network network;
  Idle idle;
  std::vector<ProcessId> processes;
  std::vector<std::unique_ptr<Inbox>> inboxes;
};

const LinkOptions kLink{.bits_per_second = kTenGigabit, .delay = microseconds(5)};
/// The payload size of a datagram that has 1250 bytes on the wire. Such a datagram takes 1 us at 10 Gb/s.
constexpr std::uint32_t kMicrosecondPayload = 1250 - kDatagramOverhead;

}  // namespace

BOOST_AUTO_TEST_CASE(one_datagram_takes_two_transmissions_and_two_delays) {
  World world;
  const HostId a = world.add(kLink), b = world.add(kLink);
  world.send(a, b, kMicrosecondPayload, 7);
  world.finish();
  BOOST_REQUIRE(world.received(b).size() == 1u);
  BOOST_TEST(world.received(b)[0].number == 7u);
  BOOST_TEST(world.received(b)[0].intact);
  BOOST_TEST((world.received(b)[0].at == Time{12'000}));
  BOOST_TEST((world.network.delay(a, b) == microseconds(10)));
}

BOOST_AUTO_TEST_CASE(a_long_stream_runs_at_exactly_the_link_rate_in_order) {
  World world;
  LinkOptions link = kLink;
  // At this rate, 1250 bytes take 3333.3… ns, so the times are no whole numbers.
  link.bits_per_second = 3'000'000'000;
  link.queue_bytes = 1 << 30;
  const HostId a = world.add(link), b = world.add(link);
  constexpr std::uint32_t kCount = 30'000;
  for (std::uint32_t i = 0; i < kCount; ++i) world.send(a, b, kMicrosecondPayload, i);
  world.finish();
  BOOST_REQUIRE(world.received(b).size() == kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) BOOST_REQUIRE(world.received(b)[i].number == i);
  const double expected_ns = (kCount + 1) * 1250.0 * 8 / 3.0 + 10'000;
  BOOST_TEST(static_cast<double>(world.received(b).back().at.ns) == expected_ns,
             boost::test_tools::tolerance(1e-7));
}

BOOST_AUTO_TEST_CASE(two_senders_share_the_receivers_link) {
  World world;
  const HostId a = world.add(kLink), b = world.add(kLink), c = world.add(kLink);
  for (std::uint32_t i = 0; i < 100; ++i) {
    world.send(a, c, kMicrosecondPayload, i);
    world.send(b, c, kMicrosecondPayload, i);
  }
  world.finish();
  BOOST_REQUIRE(world.received(c).size() == 200u);
  BOOST_TEST((world.received(c).back().at == Time{(1 + 200 + 10) * 1000}));
}

BOOST_AUTO_TEST_CASE(hosts_of_different_racks_meet_at_the_uplink) {
  World world;
  LinkOptions uplink = kLink;
  uplink.bits_per_second = kTenGigabit / 10;
  const RackId one = world.network.add_rack(uplink), two = world.network.add_rack(uplink);
  const HostId a = world.add(kLink, one), b = world.add(kLink, one), c = world.add(kLink, two);
  for (std::uint32_t i = 0; i < 50; ++i) {
    world.send(a, c, kMicrosecondPayload, i);
    world.send(a, b, kMicrosecondPayload, i);
  }
  world.finish();
  BOOST_TEST((world.network.delay(a, c) == microseconds(20)));
  BOOST_TEST((world.received(b).back().at == Time{(100 + 1 + 10) * 1000}));
  // The first datagram takes 1 us on the sender's link. The two uplinks have a tenth of the rate and form a
  // pipeline, so 50 datagrams take 51 times 10 us. The receiver's link takes 1 us. The delays add up to 20
  // us.
  BOOST_TEST((world.received(c).back().at == Time{(1 + 51 * 10 + 1 + 20) * 1000}));
}

BOOST_AUTO_TEST_CASE(jitter_spreads_arrivals_without_reordering) {
  World world;
  LinkOptions link = kLink;
  link.jitter = microseconds(40);
  const HostId a = world.add(link), b = world.add(link);
  for (std::uint32_t i = 0; i < 200; ++i) world.send(a, b, kMicrosecondPayload, i);
  world.finish();
  BOOST_REQUIRE(world.received(b).size() == 200u);
  for (std::uint32_t i = 0; i < 200; ++i) BOOST_REQUIRE(world.received(b)[i].number == i);
  BOOST_TEST((world.received(b)[0].at > Time{12'000}));
  BOOST_TEST((world.received(b)[0].at < Time{12'000 + 2 * 40'000}));
}

BOOST_AUTO_TEST_CASE(a_full_queue_drops_the_newest_and_marks_before_that) {
  World world;
  LinkOptions slow = kLink;
  slow.bits_per_second = kTenGigabit / 100;
  slow.queue_bytes = 10 * 1250;
  slow.mark_bytes = 5 * 1250;
  const HostId a = world.add(kLink), b = world.add(slow);
  for (std::uint32_t i = 0; i < 30; ++i) world.send(a, b, kMicrosecondPayload, i, i % 2 == 0);
  world.finish();
  const auto& got = world.received(b);
  BOOST_TEST(got.size() < 13u);
  BOOST_TEST(got.size() > 9u);
  BOOST_TEST(world.simulation.faults()[Fault::queue_full] == 30 - got.size());
  BOOST_TEST(!got[0].congestion_experienced);
  for (const auto& message : got) {
    if (message.congestion_experienced) BOOST_TEST(message.number % 2 == 0u);
    if (message.number >= 8 && message.number % 2 == 0) BOOST_TEST(message.congestion_experienced);
  }
}

BOOST_AUTO_TEST_CASE(each_fault_strikes_as_often_as_asked_and_does_what_it_says) {
  constexpr std::uint32_t kCount = 20'000;
  const auto run = [](const FaultRates& rates) {
    auto world = std::make_unique<World>(5);
    LinkOptions link = kLink;
    link.queue_bytes = 1 << 30;
    const HostId a = world->add(link), b = world->add(link);
    world->network.set_faults(rates);
    for (std::uint32_t i = 0; i < kCount; ++i) world->send(a, b, kMicrosecondPayload, i);
    world->finish();
    return world;
  };
  const auto near = [](std::uint64_t count) {
    return count > kCount * 17 / 400 && count < kCount * 23 / 400;
  };
  constexpr std::uint32_t kTwentieth = 50'000;

  const auto lossy = run({.loss = kTwentieth});
  const std::uint64_t lost = lossy->simulation.faults()[Fault::loss];
  BOOST_TEST(near(lost));
  BOOST_TEST(lossy->received(HostId{1}).size() == kCount - lost);

  const auto doubled = run({.duplicate = kTwentieth});
  const std::uint64_t duplicates = doubled->simulation.faults()[Fault::duplicate];
  BOOST_TEST(near(duplicates));
  std::vector<int> seen(kCount);
  for (const auto& message : doubled->received(HostId{1})) ++seen[message.number];
  BOOST_TEST(std::count(seen.begin(), seen.end(), 2) == static_cast<std::ptrdiff_t>(duplicates));
  BOOST_TEST(std::count(seen.begin(), seen.end(), 0) == 0);

  const auto shuffled = run({.reorder = kTwentieth, .reorder_by = microseconds(30)});
  BOOST_TEST(near(shuffled->simulation.faults()[Fault::reorder]));
  BOOST_REQUIRE(shuffled->received(HostId{1}).size() == kCount);
  std::uint64_t overtaken = 0;
  for (std::size_t i = 1; i < kCount; ++i) {
    const auto before = shuffled->received(HostId{1})[i - 1].number,
               after = shuffled->received(HostId{1})[i].number;
    overtaken += after < before ? 1 : 0;
    BOOST_REQUIRE(before < after + 32);
  }
  BOOST_TEST(overtaken > kCount * 7 / 200);

  const auto damaged = run({.corrupt = kTwentieth});
  const std::uint64_t corrupted = damaged->simulation.faults()[Fault::corrupt];
  BOOST_TEST(near(corrupted));
  std::uint64_t broken = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto& message = damaged->received(HostId{1})[i];
    broken += !message.intact || message.number != i ? 1 : 0;
  }
  BOOST_TEST(broken == corrupted);

  const auto late = run({.delay = kTwentieth, .delay_by = seconds(2)});
  BOOST_TEST(near(late->simulation.faults()[Fault::delay]));
  BOOST_TEST((late->received(HostId{1}).back().at > Time{seconds(1).ns}));
}

BOOST_AUTO_TEST_CASE(a_partition_is_one_way_until_it_heals) {
  World world;
  const HostId a = world.add(kLink), b = world.add(kLink);
  world.network.block(a, b);
  world.send(a, b, 100, 1);
  world.send(b, a, 100, 2);
  world.finish();
  BOOST_TEST(world.received(b).empty());
  BOOST_TEST(world.received(a).size() == 1u);
  BOOST_TEST(world.simulation.faults()[Fault::partition] == 1u);
  world.network.unblock(a, b);
  world.send(a, b, 100, 3);
  world.finish();
  BOOST_TEST(world.received(b).size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_isolated_host_hears_and_says_nothing) {
  World world;
  const HostId a = world.add(kLink), b = world.add(kLink), c = world.add(kLink);
  world.network.isolate(b);
  world.send(a, b, 100, 1);
  world.send(b, c, 100, 2);
  world.send(a, c, 100, 3);
  world.finish();
  BOOST_TEST(world.received(b).empty());
  BOOST_TEST(world.received(c).size() == 1u);
  world.network.rejoin(b);
  world.send(b, c, 100, 4);
  world.finish();
  BOOST_TEST(world.received(c).size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_dead_process_frees_its_port_and_gets_nothing) {
  World world;
  const HostId a = world.add(kLink), b = world.add(kLink);
  Inbox successor(world.network);
  const ProcessId next = world.simulation.add_process(b, world.idle);
  BOOST_TEST(!world.network.bind(next, kPort, successor));
  world.simulation.kill(world.processes[1]);
  world.send(a, b, 100, 1);
  world.finish();
  BOOST_TEST(world.network.counters().unreachable == 1u);
  BOOST_TEST(world.network.bind(next, kPort, successor));
  // The socket of the dead process is removed only now, after the new process has bound the port.
  world.network.unbind(world.processes[1], kPort, *world.inboxes[1]);
  world.send(a, b, 100, 2);
  world.finish();
  BOOST_TEST(world.received(b).empty());
  BOOST_TEST(successor.messages.size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run_and_another_seed_another) {
  const auto run = [](std::uint64_t seed) {
    World world(seed);
    LinkOptions link = kLink;
    link.jitter = microseconds(3);
    const HostId a = world.add(link), b = world.add(link);
    world.network.set_faults(
        {.loss = 10'000, .duplicate = 10'000, .reorder = 10'000, .corrupt = 10'000, .delay = 10'000});
    for (std::uint32_t i = 0; i < 500; ++i) {
      world.send(a, b, 200, i);
      world.send(b, a, 300, i);
    }
    world.finish();
    return world.simulation.trace().hash();
  };
  BOOST_TEST(run(11) == run(11));
  BOOST_TEST(run(11) != run(12));
}

BOOST_AUTO_TEST_SUITE_END()
