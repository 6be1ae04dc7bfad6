#define BOOST_TEST_MODULE socket_lane
#include "lib/socket/lane.hpp"

#include <poll.h>
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>

#include "tests/lib/socket/wire.hpp"

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

BOOST_AUTO_TEST_CASE(who_cannot_be_woken_is_told_by_a_record_of_what_happens_in_a_lane) {
  ConnectedWire wire;
  wire.share_lanes();
  Socket reader(wire.listener.accept()->stream);
  const std::vector<std::byte> much(Stream::kBytesBeforeLane), few(10);
  std::vector<std::byte> room(LanePool::kRingBytes);
  BOOST_REQUIRE((wire.connected.connect() == Socket::Connecting::succeeded));
  BOOST_REQUIRE(wire.connected.send(much));
  wire.settle();
  BOOST_REQUIRE(wire.connected.send(few));  // in its lane
  wire.settle();
  BOOST_REQUIRE((reader.stream()->incoming() != nullptr));
  BOOST_REQUIRE(wire.connected.send(few));
  BOOST_TEST(!wire.client.say());
  reader.stream()->want_records();
  BOOST_REQUIRE(wire.connected.send(few));
  BOOST_TEST(wire.client.say());
  BOOST_REQUIRE(wire.hear(wire.client).has_value());
  BOOST_TEST(reader.receive(room, false).value() == much.size() + 3 * few.size());

  while (wire.connected.send(room)) {
  }
  BOOST_TEST((wire.connected.events() & POLLOUT) == 0);
  wire.connected.stream()->want_records();
  wire.settle();
  BOOST_TEST(reader.receive(std::span(room).first(100), false).value() == 100);
  BOOST_TEST(!wire.server.say());  // too little to write into
  BOOST_TEST(reader.receive(room, false).value() == LanePool::kRingBytes - 100);
  BOOST_TEST(wire.server.say());
  BOOST_TEST((wire.connected.events() & POLLOUT) != 0);

  reader.close(false);  // unread: nothing; what is sent from now on is nobody's
  wire.settle();
  BOOST_REQUIRE(wire.connected.send(few));
  wire.settle();
  BOOST_TEST((wire.connected.send(few) == Answer(std::unexpected(EPIPE))));
}

BOOST_AUTO_TEST_CASE(neither_end_of_a_lane_believes_a_count_that_cannot_be) {
  const auto pool = make_lane_pools()->first;
  const auto lane = pool->claim();
  BOOST_REQUIRE(lane);
  LaneWriter writer(pool->memory(*lane));
  LaneReader reader(pool->memory(*lane));
  std::vector<std::byte> bytes(LanePool::kRingBytes + 1);
  BOOST_TEST(writer.write(bytes) == LanePool::kRingBytes);
  LaneHead& head = *reader.memory().head;
  for (const std::uint64_t lie : {LanePool::kRingBytes + 1, ~std::size_t{0}}) {
    head.read = lie;
    BOOST_TEST(writer.room() == 0u);
  }
  head.read = 10;
  BOOST_TEST(writer.write(bytes) == 10u);
  head.written = 2 * LanePool::kRingBytes;
  BOOST_TEST(reader.read(bytes, false) == 0u);
  BOOST_TEST(reader.is_broken());
}
