// Tests fabrics that encrypt: which bytes are visible on the cable, which packets are accepted, and which
// fabrics can connect.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "dataplane/fabric/connection_blob.hpp"
#include "tests/dataplane/fabric/cable.hpp"

BOOST_AUTO_TEST_SUITE(encryption_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::Cable;

namespace {

const testing::CableEnd kEncrypts{.encrypt = true};

struct Written {
  std::vector<std::byte> source, target;
  std::unique_ptr<MemoryRegion> region;
};

Written post_write(Cable& cable, QueuePair& from, std::size_t bytes) {
  Written written{.source = std::vector<std::byte>(bytes), .target = std::vector<std::byte>(bytes)};
  for (std::size_t i = 0; i < bytes; ++i) written.source[i] = static_cast<std::byte>(i / 3);
  written.region = *cable.b.fabric.register_memory(written.target);
  BOOST_REQUIRE(from.post_write({.bytes = written.source, .remote_key = written.region->remote_key()}));
  return written;
}

bool completed(QueuePair& queue_pair) {
  Completion done;
  return queue_pair.poll_completions({&done, 1}) == 1 && done.status == WorkStatus::success;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_part_of_the_payload_shows_and_the_same_bytes_never_look_the_same) {
  Cable cable(kEncrypts, kEncrypts);
  auto [at_a, at_b] = cable.connect();
  std::vector<std::vector<std::byte>> seen;
  for (int round = 0; round < 2; ++round) {
    const Written written = post_write(cable, *at_a, 20'000);
    cable.turn(4);
    BOOST_REQUIRE(completed(*at_a));
    BOOST_TEST((written.target == written.source));
    for (const auto& train : cable.a.port.sent) {
      for (std::size_t at = 0; at + 16 <= written.source.size(); at += 16) {
        const auto part = std::span(written.source).subspan(at, 16);
        BOOST_REQUIRE(std::ranges::search(train, part).empty());
      }
    }
    seen.push_back(std::ranges::max(cable.a.port.sent, {}, &std::vector<std::byte>::size));
    cable.a.port.sent.clear();
  }
  const auto tail = [](const std::vector<std::byte>& train) { return std::span(train).subspan(100, 1000); };
  BOOST_TEST(!std::ranges::equal(tail(seen[0]), tail(seen[1])));
  BOOST_TEST(!cable.a.fabric.info().icrc);
  BOOST_TEST(cable.a.fabric.info().encrypted);
}

BOOST_AUTO_TEST_CASE(a_bit_changed_anywhere_in_a_packet_is_counted_and_repaired) {
  Cable cable(kEncrypts, kEncrypts);
  auto [at_a, at_b] = cable.connect();
  Written written = post_write(cable, *at_a, 100);
  cable.turn(3);
  BOOST_REQUIRE(completed(*at_a));
  const auto packet = cable.a.port.sent.front();
  Address source = cable.a.port.info().address;
  source.port = decode_connection(at_a->local_blob())->bulk_port;
  const auto refused = [&] {
    const auto& counters = cable.b.fabric.counters();
    std::uint64_t sum = counters.forged + counters.unknown_queue_pair;
    for (const std::uint64_t errors : counters.parse_errors) sum += errors;
    return sum;
  };
  std::ranges::fill(written.target, std::byte{0x5A});
  const auto own = written.target;
  for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    auto changed = packet;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const std::uint64_t before = refused();
    cable.b.port.deliver(source, changed);
    cable.turn();
    BOOST_REQUIRE(refused() == before + 1);
  }
  BOOST_TEST(cable.b.fabric.counters().forged > 8 * (packet.size() - 12));
  // Each shortened packet is refused.
  for (std::size_t bytes = 1; bytes < packet.size(); ++bytes) {
    const std::uint64_t before = refused();
    cable.b.port.deliver(source, {packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(bytes)});
    cable.turn();
    BOOST_TEST(refused() == before + 1);
  }
  // A replay of the unchanged packet is authentic, but its PSN shows that it is a duplicate.
  cable.b.port.deliver(source, packet);
  cable.turn(2);
  BOOST_TEST(cable.b.fabric.connection_counters().duplicates == 1u);
  BOOST_TEST((written.target == own));
  BOOST_TEST((at_a->state() == QueuePairState::ready && at_b->state() == QueuePairState::ready));
}

BOOST_AUTO_TEST_CASE(all_arrives_over_a_cable_that_loses) {
  Random random(7);
  Cable cable(kEncrypts, kEncrypts);
  auto [at_a, at_b] = cable.connect();
  cable.a.port.loses = cable.b.port.loses = [&random] { return random.next() % 10 == 0; };
  const Written written = post_write(cable, *at_a, 3'000'000);
  bool done = false;
  for (int turn = 0; turn < 200'000 && !done; ++turn) {
    cable.turn();
    done = completed(*at_a);
  }
  BOOST_TEST(done);
  BOOST_TEST((written.target == written.source));
  BOOST_TEST(cable.a.fabric.connection_counters().retransmitted > 0u);
  BOOST_TEST(cable.b.fabric.counters().forged == 0u);
}

BOOST_AUTO_TEST_CASE(who_encrypts_connects_to_nobody_who_does_not) {
  for (const bool a_encrypts : {false, true}) {
    Cable cable({.encrypt = a_encrypts}, {.encrypt = !a_encrypts});
    const auto at_a = *cable.a.fabric.create_queue_pair({}), at_b = *cable.b.fabric.create_queue_pair({});
    for (const auto& connected : {at_a->connect(at_b->local_blob()), at_b->connect(at_a->local_blob())}) {
      BOOST_REQUIRE(!connected);
      BOOST_TEST((connected.error().code == Errc::authentication));
    }
    BOOST_TEST((at_a->state() == QueuePairState::reset));
  }
  Cable cable(kEncrypts, kEncrypts);
  const auto at_a = *cable.a.fabric.create_queue_pair({});
  auto foreign = *decode_connection((*cable.b.fabric.create_queue_pair({}))->local_blob());
  foreign.key_share.reset();
  foreign.foreign = true;
  foreign.path_mtu = 1024;
  BOOST_TEST((at_a->connect(encode(foreign)).error().code == Errc::authentication));
}

BOOST_AUTO_TEST_CASE(each_end_of_each_connection_draws_a_share_of_its_own) {
  Cable cable(kEncrypts, kEncrypts);
  auto [at_a, at_b] = cable.connect();
  auto [other_a, other_b] = cable.connect();
  std::vector<crypto::KeyShare> keys;
  for (const auto* queue_pair : {at_a.get(), at_b.get(), other_a.get(), other_b.get()})
    keys.push_back(*decode_connection(queue_pair->local_blob())->key_share);
  std::ranges::sort(keys);
  BOOST_TEST((std::ranges::adjacent_find(keys) == keys.end()));
}

BOOST_AUTO_TEST_SUITE_END()
