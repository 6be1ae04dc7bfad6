// Tests a peer that vanishes, and a peer that restarts at the same address while packets to its former
// process are still in flight.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>

#include "tests/dataplane/fabric/cable.hpp"

BOOST_AUTO_TEST_SUITE(restart_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

/// A host whose process can end without notice and start again, with the same address and UDP port numbers.
struct Host {
  explicit Host(std::uint8_t number) : port(number), random(number) { start(); }
  void start() {
    fabric.emplace(port, SoftwareFabricOptions{.entropy = [this] {
                     if (numbers.empty()) return static_cast<std::uint32_t>(random.next());
                     const std::uint32_t number = numbers.front();
                     numbers.pop_front();
                     return number;
                   }});
  }
  void die() {
    region.reset();
    queue_pair.reset();
    fabric.reset();
    port.forget_flows();
  }
  void make(bool selective) {
    queue_pair = *fabric->create_queue_pair({.selective_repeat = selective, .path_mtu = 1024});
    region = *fabric->register_memory(memory);
  }

  testing::CablePort port;
  Random random;
  std::deque<std::uint32_t> numbers;  ///< The next numbers that the random generator returns.
  std::optional<SoftwareFabric> fabric;
  std::vector<std::byte> memory = std::vector<std::byte>(64 << 10);
  std::unique_ptr<QueuePair> queue_pair;
  std::unique_ptr<MemoryRegion> region;
};

struct World {
  World() {
    a.port.plug_into(b.port);
    b.port.plug_into(a.port);
  }
  void connect() {
    const auto of_a = a.queue_pair->local_blob(), of_b = b.queue_pair->local_blob();
    BOOST_REQUIRE(a.queue_pair->connect(of_b));
    BOOST_REQUIRE(b.queue_pair->connect(of_a));
  }
  void write(QueuePair& queue_pair, std::span<const std::byte> bytes, RemoteKey key) {
    BOOST_REQUIRE(queue_pair.post_write({.bytes = bytes, .remote_key = key}));
  }
  /// Gives both fabrics turns for this time.
  void run(Duration time) {
    for (const Time end = now + time; now < end; now = now + microseconds(500)) {
      a.fabric->progress(now);
      b.fabric->progress(now);
    }
  }
  Time now = Time{} + seconds(1);
  Host a{1}, b{2};
};

WorkStatus only_completion(QueuePair& queue_pair) {
  std::array<Completion, 2> done;
  BOOST_REQUIRE(queue_pair.poll_completions(done) == 1u);
  return done[0].status;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_peer_that_vanishes_is_named_as_silent_within_its_time) {
  for (const bool selective : {false, true}) {
    World world;
    world.a.make(selective);
    world.b.make(selective);
    world.connect();
    const std::vector<std::byte> bytes(32 << 10, std::byte{1});
    world.write(*world.a.queue_pair, bytes, world.b.region->remote_key());
    world.a.fabric->progress(world.now);
    world.b.die();
    world.b.start();
    world.run(milliseconds(600));
    BOOST_TEST((world.a.queue_pair->state() == QueuePairState::error));
    BOOST_TEST(world.a.queue_pair->error_cause() == "the peer stopped acknowledging");
    BOOST_TEST((only_completion(*world.a.queue_pair) == WorkStatus::retry_exceeded));
  }
}

// Packets to the former process find no queue pair, and they do not disturb the new queue pair. This is also
// true if the new queue pair has the same QPN by chance, because its PSNs and keys differ.
BOOST_AUTO_TEST_CASE(a_peer_that_restarts_at_its_address_is_not_touched_by_packets_to_its_former_self) {
  for (const bool selective : {false, true}) {
    for (const bool same_number : {false, true}) {
      World world;
      world.b.numbers = {4711, 100'000, 77};
      world.a.make(selective);
      world.b.make(selective);
      world.connect();
      const std::vector<std::byte> old(32 << 10, std::byte{1}), fresh(32 << 10, std::byte{2});
      world.write(*world.a.queue_pair, old, world.b.region->remote_key());
      world.a.fabric->progress(world.now);
      BOOST_TEST(world.b.port.has_arrivals());

      world.b.die();
      world.b.numbers = {same_number ? 4711u : 4712u, 9'000'000, 78};
      world.b.start();
      world.b.make(selective);
      auto former = std::move(world.a.queue_pair);
      world.a.region.reset();
      world.a.make(selective);
      world.connect();
      world.run(milliseconds(20));
      // Only packets for the former queue pair have arrived, so nothing was written.
      BOOST_TEST(std::ranges::count(world.b.memory, std::byte{0}) == std::ssize(world.b.memory));
      const auto& dropped = world.b.fabric->counters();
      BOOST_TEST((same_number ? dropped.wrong_source + dropped.icrc_errors : dropped.unknown_queue_pair) >
                 0u);

      world.write(*world.a.queue_pair, fresh, world.b.region->remote_key());
      world.run(milliseconds(20));
      BOOST_TEST((only_completion(*world.a.queue_pair) == WorkStatus::success));
      BOOST_TEST(std::ranges::count(world.b.memory, std::byte{2}) == std::ssize(fresh));
      BOOST_TEST(std::ranges::count(world.b.memory, std::byte{1}) == 0);
      world.run(milliseconds(600));
      BOOST_TEST((only_completion(*former) == WorkStatus::retry_exceeded));
      BOOST_TEST((world.a.queue_pair->state() == QueuePairState::ready));
      BOOST_TEST((world.b.queue_pair->state() == QueuePairState::ready));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
