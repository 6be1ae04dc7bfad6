#include "dataplane/sim/channel.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <string_view>

BOOST_AUTO_TEST_SUITE(channel_test)

using namespace rdmc;
using namespace rdmc::sim;

namespace {

/// Records the bytes that arrive and the times of their arrival.
struct Reader final : Process {
  ChannelEnd* end = nullptr;
  std::vector<std::byte> got;
  Time first_bytes = Time::never(), ended_at = Time::never();
  std::function<Time()> clock;

  void run(Time now) override {
    if (end == nullptr) return;
    if (end->receive(got) > 0) first_bytes = std::min(first_bytes, now);
    if (end->ended()) ended_at = std::min(ended_at, now);
  }
  Time next_deadline() override { return Time::never(); }
  std::string text() const { return {reinterpret_cast<const char*>(got.data()), got.size()}; }
};

struct World {
  explicit World(const ChannelOptions& options, std::uint64_t seed = 1)
      : simulation(seed), network(simulation), channels(network, options) {
    a = network.add_host({.link = {.delay = microseconds(50)}, .address = {}});
    b = network.add_host({.link = {.delay = microseconds(50)}, .address = {}});
    first = simulation.add_process(a, left);
    second = simulation.add_process(b, right);
    std::tie(left.end, right.end) = channels.connect(first, second);
  }
  Simulation simulation;
  Network network;
  Channels channels;
  HostId a, b;
  Reader left, right;
  ProcessId first, second;
};

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

const ChannelOptions kExact{.extra = {}, .jitter = {}, .split = 0};

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_arrive_after_the_networks_delay_in_both_directions) {
  World world(kExact);
  world.left.end->send(bytes("hello"));
  world.right.end->send(bytes("there"));
  world.simulation.run_until(Time{99'999});
  BOOST_TEST(world.right.text() == "");
  world.simulation.run_until(Time{200'000});
  BOOST_TEST(world.right.text() == "hello");
  BOOST_TEST(world.left.text() == "there");
  BOOST_TEST((world.right.first_bytes == Time{100'000}));
}

BOOST_AUTO_TEST_CASE(order_is_kept_whatever_jitter_and_pieces_do) {
  BOOST_TEST(rc::check([](std::uint64_t seed, const std::vector<std::string>& messages) {
    World world({.extra = {}, .jitter = milliseconds(1), .split = 500'000}, seed);
    std::string expected;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      world.simulation.at(Time{static_cast<std::int64_t>(i) * 20'000},
                          [&world, &messages, i] { world.left.end->send(bytes(messages[i])); });
      expected += messages[i];
    }
    while (world.simulation.step()) continue;
    RC_ASSERT(world.right.text() == expected);
  }));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_stream_comes_after_its_last_byte) {
  World world(kExact);
  world.left.end->send(bytes("last"));
  world.left.end->close();
  world.left.end->send(bytes("too late"));
  world.simulation.run_until(Time{1'000'000});
  BOOST_TEST(world.right.text() == "last");
  BOOST_TEST(world.right.end->ended());
  BOOST_TEST(!world.left.end->ended());
}

BOOST_AUTO_TEST_CASE(a_killed_process_ends_its_streams_and_what_it_had_sent_still_arrives) {
  World world(kExact);
  world.left.end->send(bytes("will"));
  world.simulation.at(Time{10'000}, [&] { world.simulation.kill(world.first); });
  world.simulation.run_until(Time{1'000'000});
  BOOST_TEST(world.right.text() == "will");
  BOOST_TEST((world.right.ended_at == Time{110'000}));
  const auto [ours, theirs] = world.channels.connect(world.second, world.first);
  world.simulation.run_until(Time{2'000'000});
  BOOST_TEST(ours->ended());
}

BOOST_AUTO_TEST_CASE(a_partition_holds_bytes_and_the_end_back_until_it_heals) {
  World world(kExact);
  world.network.block(world.a, world.b);
  world.left.end->send(bytes("patience"));
  world.simulation.kill(world.first);
  world.right.end->send(bytes("the other way is open"));
  world.simulation.run_until(Time{seconds(3).ns});
  BOOST_TEST(world.right.text() == "");
  BOOST_TEST(!world.right.end->ended());
  BOOST_TEST(world.simulation.faults()[Fault::partition] > 0u);
  world.network.unblock(world.a, world.b);
  world.simulation.run_until(Time{seconds(3).ns} + Channels::kRetry);
  BOOST_TEST(world.right.text() == "patience");
  BOOST_TEST(world.right.end->ended());
}

BOOST_AUTO_TEST_CASE(a_paused_process_finds_everything_when_it_wakes) {
  World world(kExact);
  world.simulation.at(Time{10'000}, [&] { world.simulation.pause(world.second); });
  world.simulation.at(Time{20'000}, [&] { world.left.end->send(bytes("one ")); });
  world.simulation.at(Time{30'000}, [&] { world.left.end->send(bytes("two")); });
  world.simulation.run_until(Time{900'000});
  BOOST_TEST(world.right.text() == "");
  world.simulation.resume(world.second);
  world.simulation.run_until(Time{1'000'000});
  BOOST_TEST(world.right.text() == "one two");
}

BOOST_AUTO_TEST_SUITE_END()
