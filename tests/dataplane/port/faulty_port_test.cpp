#include "dataplane/port/faulty_port.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

BOOST_AUTO_TEST_SUITE(faulty_port_test)

using namespace rdmc;
using namespace rdmc::port;

namespace {

/// A port that records every datagram that is sent through it. A test can make the port refuse trains.
struct Sink final : Port {
  struct Datagram {
    std::uint32_t number;
    bool intact;
  };
  std::vector<Datagram> datagrams;
  std::size_t trains = 0;
  std::size_t room = ~std::size_t{0};
  Time waited_until{};
  PortInfo information;
  PortCounters count;

  const PortInfo& info() const noexcept override { return information; }
  Result<FlowId> open_flow() override { return FlowId{1}; }
  std::uint16_t udp_port(FlowId) const override { return 1; }
  void close_flow(FlowId) override {}
  std::size_t send_burst(std::span<const TxTrain> burst) override {
    for (std::size_t i = 0; i < burst.size(); ++i) {
      if (room == 0) return i;
      --room;
      ++trains;
      take(burst[i]);
    }
    return burst.size();
  }
  std::size_t receive_burst(ScatterPlanner&, std::span<RxTrain>) override { return 0; }
  void wait(Time deadline) override { waited_until = deadline; }
  void wake() noexcept override {}
  const PortCounters& counters() const noexcept override { return count; }

 private:
  void take(const TxTrain& train) {
    std::vector<std::byte> bytes;
    for (const iovec& piece : train.pieces) {
      const auto* from = static_cast<const std::byte*>(piece.iov_base);
      bytes.insert(bytes.end(), from, from + piece.iov_len);
    }
    BOOST_REQUIRE(bytes.size() == train.total_bytes);
    for (std::size_t at = 0; at < bytes.size(); at += train.segment_bytes) {
      const std::size_t size = std::min<std::size_t>(train.segment_bytes, bytes.size() - at);
      Datagram datagram{0, true};
      std::memcpy(&datagram.number, &bytes[at], 4);
      for (std::size_t i = 4; i < size; ++i)
        datagram.intact = datagram.intact && bytes[at + i] == std::byte{0x5A};
      datagrams.push_back(datagram);
    }
  }
};

constexpr std::uint32_t kPerTrain = 20, kSegment = 100, kTrains = 1000, kCount = kTrains * kPerTrain;

struct World {
  explicit World(const sim::FaultRates& rates, std::uint64_t seed = 1)
      : port(sink, rates, seed, [this] { return now; }) {}

  /// Sends a train of numbered datagrams. The train's pieces do not end where the datagrams end.
  bool send_train(std::uint32_t first) {
    // The last datagram is shorter than the others.
    std::vector<std::byte> bytes(kPerTrain * kSegment - 30, std::byte{0x5A});
    for (std::uint32_t k = 0; k < kPerTrain; ++k) {
      const std::uint32_t number = first + k;
      std::memcpy(&bytes[k * kSegment], &number, 4);
    }
    const iovec pieces[]{
        {bytes.data(), 250}, {bytes.data() + 250, 0}, {bytes.data() + 250, bytes.size() - 250}};
    const TxTrain train{.destination = Address::ipv4(10, 0, 0, 1, 4791),
                        .pieces = pieces,
                        .segment_bytes = kSegment,
                        .total_bytes = static_cast<std::uint32_t>(bytes.size())};
    return port.send_burst({&train, 1}) == 1;
  }
  void send_all() {
    for (std::uint32_t i = 0; i < kTrains; ++i) {
      BOOST_REQUIRE(send_train(i * kPerTrain));
      now = now + microseconds(10);
    }
    now = now + seconds(10);
    port.wait(now);
  }
  /// Returns for each number how often its datagram was sent through the port.
  std::vector<int> seen() const {
    std::vector<int> times(kCount);
    for (const auto& datagram : sink.datagrams)
      if (datagram.number < kCount) ++times[datagram.number];
    return times;
  }

  Time now{};
  Sink sink;
  FaultyPort port;
};

constexpr std::uint32_t kTwentieth = 50'000;

bool is_a_twentieth(std::uint64_t count) {
  return count > kCount / 25 && count < kCount / 17;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_faults_trains_pass_untouched) {
  World world({});
  world.send_all();
  BOOST_TEST(world.sink.trains == kTrains);
  BOOST_REQUIRE(world.sink.datagrams.size() == kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) BOOST_REQUIRE(world.sink.datagrams[i].number == i);
}

BOOST_AUTO_TEST_CASE(lost_datagrams_are_missing_and_all_others_pass_in_order) {
  World world({.loss = kTwentieth});
  world.send_all();
  const std::uint64_t lost = world.port.faults()[sim::Fault::loss];
  BOOST_TEST(is_a_twentieth(lost));
  BOOST_TEST(world.sink.datagrams.size() == kCount - lost);
  BOOST_TEST(std::ranges::is_sorted(world.sink.datagrams, {}, &Sink::Datagram::number));
  BOOST_TEST(world.sink.trains > kTrains);
}

BOOST_AUTO_TEST_CASE(duplicates_come_twice_and_nothing_else_does) {
  World world({.duplicate = kTwentieth});
  world.send_all();
  const std::uint64_t duplicates = world.port.faults()[sim::Fault::duplicate];
  BOOST_TEST(is_a_twentieth(duplicates));
  const auto seen = world.seen();
  BOOST_TEST(std::ranges::count(seen, 2) == static_cast<std::ptrdiff_t>(duplicates));
  BOOST_TEST(std::ranges::count(seen, 1) == static_cast<std::ptrdiff_t>(kCount - duplicates));
}

BOOST_AUTO_TEST_CASE(corrupted_datagrams_differ_and_keep_their_place) {
  World world({.corrupt = kTwentieth});
  world.send_all();
  const std::uint64_t corrupted = world.port.faults()[sim::Fault::corrupt];
  BOOST_TEST(is_a_twentieth(corrupted));
  BOOST_REQUIRE(world.sink.datagrams.size() == kCount);
  std::uint64_t broken = 0;
  for (std::uint32_t i = 0; i < kCount; ++i)
    broken += !world.sink.datagrams[i].intact || world.sink.datagrams[i].number != i ? 1 : 0;
  BOOST_TEST(broken == corrupted);
}

BOOST_AUTO_TEST_CASE(reordered_datagrams_are_overtaken_and_none_is_lost) {
  World world({.reorder = kTwentieth, .reorder_by = microseconds(40)});
  world.send_all();
  BOOST_TEST(is_a_twentieth(world.port.faults()[sim::Fault::reorder]));
  BOOST_TEST(std::ranges::count(world.seen(), 1) == static_cast<std::ptrdiff_t>(kCount));
  BOOST_TEST(!std::ranges::is_sorted(world.sink.datagrams, {}, &Sink::Datagram::number));
  // At most six trains overtake a datagram: the five trains that are sent in 40 us, and the train that is
  // being sent.
  for (std::size_t i = 1; i < kCount; ++i)
    BOOST_REQUIRE(world.sink.datagrams[i - 1].number < world.sink.datagrams[i].number + 6 * kPerTrain);
}

BOOST_AUTO_TEST_CASE(what_is_held_back_is_waited_for_and_released_when_due) {
  World world({.delay = 1'000'000, .delay_by = milliseconds(5)});
  BOOST_TEST(world.send_train(0));
  BOOST_TEST(world.sink.datagrams.empty());
  BOOST_TEST(world.port.faults()[sim::Fault::delay] == kPerTrain);
  const Time due = world.port.next_release();
  world.port.wait(Time::never());
  BOOST_TEST((world.sink.waited_until == due));
  world.now = due;
  world.port.wait(due);
  BOOST_TEST(!world.sink.datagrams.empty());
  world.now = due + milliseconds(5);
  world.port.wait(world.now);
  BOOST_TEST(world.sink.datagrams.size() == kPerTrain);
  BOOST_TEST((world.port.next_release() == Time::never()));
}

BOOST_AUTO_TEST_CASE(a_refusal_leaves_an_untouched_train_with_the_caller_and_loses_nothing_of_a_struck_one) {
  World untouched({.loss = 1});
  untouched.sink.room = 0;
  BOOST_TEST(!untouched.send_train(0));
  untouched.sink.room = 1;
  BOOST_TEST(untouched.send_train(0));
  BOOST_TEST(untouched.sink.datagrams.size() == kPerTrain);

  World struck({.duplicate = 200'000});
  struck.sink.room = 1;  // Only the first part of the train passes.
  BOOST_TEST(struck.send_train(0));
  struck.sink.room = ~std::size_t{0};
  struck.now = struck.now + seconds(1);
  struck.port.wait(struck.now);
  const auto seen = struck.seen();
  BOOST_TEST(std::count_if(seen.begin(), seen.begin() + kPerTrain, [](int times) { return times >= 1; }) ==
             kPerTrain);
}

BOOST_AUTO_TEST_CASE(the_same_seed_strikes_the_same_datagrams) {
  const auto run = [](std::uint64_t seed) {
    World world({.loss = kTwentieth, .duplicate = kTwentieth, .reorder = kTwentieth}, seed);
    world.send_all();
    std::vector<std::uint32_t> numbers;
    for (const auto& datagram : world.sink.datagrams) numbers.push_back(datagram.number);
    return numbers;
  };
  BOOST_TEST((run(3) == run(3)));
  BOOST_TEST((run(3) != run(4)));
}

BOOST_AUTO_TEST_SUITE_END()
