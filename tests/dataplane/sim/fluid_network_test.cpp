#include "dataplane/sim/fluid_network.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>

BOOST_AUTO_TEST_SUITE(fluid_network_test)

using namespace rdmc;
using namespace rdmc::sim;

namespace {

constexpr std::uint64_t kEightGigabit = 8'000'000'000;  // One byte takes one nanosecond.

struct Inbox final : FluidEndpoint {
  struct Entry {
    Time at;
    HostId from;
    std::uint64_t tag;
  };
  explicit Inbox(Simulation& s) : simulation(s) {}
  void on_arrival(HostId from, std::uint64_t tag) override {
    entries.push_back({simulation.now(), from, tag});
  }
  Simulation& simulation;
  std::vector<Entry> entries;
};

struct World {
  explicit World(const FluidOptions& options = {.delay = {}}, std::uint64_t seed = 1)
      : simulation(seed), network(simulation, options) {}

  HostId add(std::uint64_t rate = kEightGigabit, RackId rack = RackId{0}) {
    inboxes.push_back(std::make_unique<Inbox>(simulation));
    return network.add_host(rate, rack, *inboxes.back());
  }
  void finish() {
    while (simulation.step()) {
    }
  }
  std::int64_t arrival(HostId host, std::size_t index = 0) const {
    return inboxes[value_of(host)]->entries.at(index).at.ns;
  }

  Simulation simulation;
  FluidNetwork network;
  std::vector<std::unique_ptr<Inbox>> inboxes;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_transfer_takes_its_bytes_at_the_links_rate_and_the_delay) {
  World world({.delay = microseconds(7)});
  const HostId a = world.add(), b = world.add();
  world.network.send(a, b, 1000, 42);
  world.network.send(a, b, 500, 43);
  world.finish();
  BOOST_TEST(world.arrival(b, 0) == 8000);
  BOOST_TEST(world.arrival(b, 1) == 8500);
  BOOST_TEST(world.inboxes[1]->entries[1].tag == 43u);
}

BOOST_AUTO_TEST_CASE(senders_that_meet_share_the_receivers_link_and_the_longer_one_then_has_it_alone) {
  World world;
  const HostId a = world.add(), b = world.add(), c = world.add();
  world.network.send(a, c, 1000, 1);
  world.network.send(b, c, 3000, 2);
  world.finish();
  BOOST_TEST(world.arrival(c, 0) == 2000);
  BOOST_TEST(world.arrival(c, 1) == 4000);
}

BOOST_AUTO_TEST_CASE(a_slow_path_holds_up_what_lies_behind_it) {
  World world;
  const HostId a = world.add(), b = world.add(), c = world.add();
  world.network.limit_path(b, a, kEightGigabit / 4);
  world.network.send(a, b, 1000, 1);
  world.network.send(a, c, 1000, 2);
  world.finish();
  BOOST_TEST(world.arrival(b) == 4000);
  BOOST_TEST(world.arrival(c) == 5000);
}

BOOST_AUTO_TEST_CASE(a_racks_uplink_is_shared_by_what_crosses_it_only) {
  World world;
  const RackId left = world.network.add_rack(kEightGigabit / 2),
               right = world.network.add_rack(kEightGigabit);
  const HostId a = world.add(kEightGigabit, left), b = world.add(kEightGigabit, left),
               c = world.add(kEightGigabit, left);
  const HostId x = world.add(kEightGigabit, right), y = world.add(kEightGigabit, right);
  world.network.send(a, x, 1000, 1);
  world.network.send(b, y, 1000, 2);
  world.network.send(c, a, 1000, 3);
  world.finish();
  BOOST_TEST(world.arrival(x) == 4000);
  BOOST_TEST(world.arrival(y) == 4000);
  BOOST_TEST(world.arrival(a) == 1000);
}

BOOST_AUTO_TEST_CASE(a_signal_waits_for_no_transfer_that_has_not_left) {
  World world({.delay = microseconds(1)});
  const HostId a = world.add(), b = world.add();
  world.network.send(a, b, 1'000'000, 1);
  world.network.signal(a, b, 2);
  world.finish();
  BOOST_TEST(world.inboxes[1]->entries[0].tag == 2u);
  BOOST_TEST(world.arrival(b) == 1000);
}

// Checks three things: the transfers of each pair of hosts stay in order, none is lost or duplicated, and no
// host sends or receives faster than its rate.
BOOST_AUTO_TEST_CASE(every_transfer_arrives_once_and_in_order_and_the_same_seed_does_it_again) {
  const bool held = rc::check("transfers", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto hosts = *rc::gen::inRange<std::uint32_t>(2, 10);
    const auto count = *rc::gen::inRange<std::uint64_t>(1, 200);
    const auto run = [&](std::uint64_t* hash) {
      World world({.delay = nanoseconds(500), .jitter = nanoseconds(2000)}, seed);
      Random random(seed);
      const RackId rack = world.network.add_rack(kEightGigabit / 3);
      for (std::uint32_t i = 0; i < hosts; ++i) world.add(kEightGigabit, i % 2 == 0 ? rack : RackId{0});
      std::vector<std::uint64_t> sent(hosts), received(hosts), bytes_of(count);
      for (std::uint64_t tag = 0; tag < count; ++tag) {
        const auto from = static_cast<std::uint32_t>(random.below(hosts));
        const auto to = static_cast<std::uint32_t>((from + 1 + random.below(hosts - 1)) % hosts);
        bytes_of[tag] = random.below(5000);
        world.simulation.at(Time{static_cast<std::int64_t>(tag * 100)}, [&world, &bytes_of, from, to, tag] {
          world.network.send(HostId{from}, HostId{to}, bytes_of[tag], tag);
        });
        sent[from] += bytes_of[tag];
      }
      world.finish();
      *hash = world.simulation.trace().hash();
      std::uint64_t arrived = 0;
      const auto end = static_cast<std::uint64_t>(world.simulation.now().ns);
      for (std::uint32_t to = 0; to < hosts; ++to) {
        std::map<HostId, std::uint64_t> last;
        for (const auto& entry : world.inboxes[to]->entries) {
          const auto before = last.find(entry.from);
          const bool in_order = before == last.end() || before->second < entry.tag;
          RC_ASSERT(in_order);
          last[entry.from] = entry.tag;
          received[to] += bytes_of[entry.tag];
          ++arrived;
        }
        RC_ASSERT(sent[to] <= end);
        RC_ASSERT(received[to] <= end);
      }
      RC_ASSERT(arrived == count);
    };
    std::uint64_t first = 0, again = 0;
    run(&first);
    run(&again);
    RC_ASSERT(first == again);
  });
  BOOST_TEST(held);
}

BOOST_AUTO_TEST_SUITE_END()
