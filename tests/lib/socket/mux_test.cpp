#include "lib/socket/mux.hpp"

#include <poll.h>
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>

#include "tests/lib/socket/wire.hpp"

BOOST_AUTO_TEST_SUITE(mux_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

std::byte byte_at(std::uint64_t position) {
  return static_cast<std::byte>(position * 0x9E37'79B9'7F4A'7C15 >> 56);
}

/// One direction of a connection, as an application uses it.
struct Direction {
  std::uint64_t sent = 0, received = 0;
  bool ended = false;  // true if no more bytes will be sent

  void send(Socket& from, std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = byte_at(sent + i);
    const auto taken = from.send(bytes);
    if (ended) return RC_ASSERT((taken == Answer(std::unexpected(EPIPE))));
    if (!taken) return RC_ASSERT(taken.error() == EAGAIN);
    RC_ASSERT(*taken > 0 && *taken <= count);
    sent += *taken;
  }
  void receive(Socket& to, std::size_t most) {
    std::vector<std::byte> bytes(most);
    const auto got = to.receive(bytes, false);
    if (!got) return RC_ASSERT(got.error() == EAGAIN);
    for (std::size_t i = 0; i < *got; ++i) RC_ASSERT(bytes[i] == byte_at(received + i));
    received += *got;
    RC_ASSERT(received <= sent);
    if (*got == 0) RC_ASSERT(ended && received == sent);
  }
};

bool says(Mux& mux, ConnectionId id, Record record) {
  record.connection = id;
  std::vector<std::byte> frame(encoded_bytes(record));
  encode(record, frame);
  return mux.on_frame(frame).has_value();
}

struct Connection {
  Socket client, server;
  Direction up, down;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_byte_of_every_stream_arrives_once_in_order_whatever_the_order_of_events) {
  BOOST_TEST(rc::check([] {
    Wire wire;
    wire.client.frame_bytes = wire.server.frame_bytes = *rc::gen::inRange<std::size_t>(64, 20'000);
    Socket listener;
    listener.listen(16);
    wire.server.listener = &listener;
    if (*rc::gen::arbitrary<bool>()) wire.share_lanes();
    std::vector<std::unique_ptr<Connection>> all;
    for (int i = *rc::gen::inRange(1, 5); i > 0; --i) {
      all.push_back(std::make_unique<Connection>());
      wire.client.connect(all.back()->client);
      wire.settle();
      auto accepted = listener.accept();
      RC_ASSERT(accepted.has_value());
      all.back()->server = Socket(accepted->stream);
      RC_ASSERT((all.back()->client.connect() == Socket::Connecting::succeeded));
    }
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, std::uint32_t>>>(
        rc::gen::tuple(rc::gen::inRange(0, 12), rc::gen::inRange<int>(0, static_cast<int>(all.size())),
                       rc::gen::arbitrary<std::uint32_t>()));
    for (const auto& [what, which, amount] : steps) {
      Connection& c = *all[which];
      const std::size_t few = amount % 2000 + 1, many = amount % 60'000 + 1;
      switch (what) {
        case 0: c.up.send(c.client, few); break;
        case 1: c.up.send(c.client, many); break;
        case 2: c.down.send(c.server, few); break;
        case 3: c.down.send(c.server, many); break;
        case 4: c.up.receive(c.server, many); break;
        case 5: c.down.receive(c.client, many); break;
        case 6: wire.client.say(); break;
        case 7: wire.server.say(); break;
        case 8:
          if (!wire.client.on_wire.empty()) RC_ASSERT(wire.hear(wire.client).has_value());
          break;
        case 9:
          if (!wire.server.on_wire.empty()) RC_ASSERT(wire.hear(wire.server).has_value());
          break;
        case 10:
          if (amount % 4 == 0) c.up.ended |= c.client.shutdown(Stream::kShutWrite).has_value();
          break;
        default:
          if (amount % 4 == 0) c.down.ended |= c.server.shutdown(Stream::kShutWrite).has_value();
      }
    }
    for (auto& c : all) {
      c->up.ended = c->client.shutdown(Stream::kShutWrite) || c->up.ended;
      c->down.ended = c->server.shutdown(Stream::kShutWrite) || c->down.ended;
      while (c->up.received < c->up.sent || c->down.received < c->down.sent) {
        wire.settle();
        c->up.receive(c->server, 60'000);
        c->down.receive(c->client, 60'000);
      }
      wire.settle();
      std::byte none;
      RC_ASSERT((c->server.receive({&none, 1}, false) == Answer(0)));
      RC_ASSERT((c->client.receive({&none, 1}, false) == Answer(0)));
      RC_ASSERT((c->client.events() & POLLHUP));
    }
    RC_ASSERT(wire.client.mux->size() == 0 && wire.server.mux->size() == 0);
  }));
}

BOOST_AUTO_TEST_CASE(a_reader_who_does_not_read_holds_up_its_own_connection_alone) {
  Wire wire;
  Socket listener, slow, quick;
  listener.listen(1);
  wire.server.listener = &listener;
  wire.client.connect(slow);
  wire.client.connect(quick);
  wire.settle();
  Socket slow_end(listener.accept()->stream), quick_end(listener.accept()->stream);
  const std::vector<std::byte> block(64 * 1024);
  std::size_t sent = 0;
  for (auto taken = slow.send(block); taken; taken = slow.send(block), wire.settle()) sent += *taken;
  BOOST_TEST(sent == Stream::kSendBytes + Stream::kWindowBytes);
  BOOST_TEST(!(slow.events() & POLLOUT));
  std::vector<std::byte> room(block.size());
  for (int i = 0; i < 100; ++i) {
    BOOST_REQUIRE(quick.send(block) == block.size());
    wire.settle();
    BOOST_REQUIRE(quick_end.receive(room, false) == room.size());
  }
  while (slow_end.receive(room, false)) wire.settle();
  BOOST_TEST((slow.events() & POLLOUT));
}

BOOST_AUTO_TEST_CASE(beyond_the_backlog_connections_wait_and_whoever_gives_up_is_not_accepted) {
  Wire wire;
  Socket listener;
  listener.listen(1);
  wire.server.listener = &listener;
  std::vector<Socket> clients(4);
  for (Socket& client : clients) wire.client.connect(client);
  wire.settle();
  BOOST_TEST((clients[1].connect() == Socket::Connecting::succeeded));
  BOOST_TEST((clients[2].connect() == Socket::Connecting::goes_on));
  clients[2].close(false);
  wire.settle();
  BOOST_TEST(listener.accept().has_value());
  wire.settle();
  BOOST_TEST((clients[3].connect() == Socket::Connecting::succeeded));
  BOOST_TEST(listener.accept().has_value());
  BOOST_TEST(listener.accept().has_value());
  BOOST_TEST(!listener.accept());
}

BOOST_AUTO_TEST_CASE(what_breaks_the_protocol_is_named_and_what_is_late_is_ignored) {
  ConnectedWire wire;
  Socket& client = wire.connected;
  const ConnectionId id = client.stream()->id();
  const auto says = [&](Mux& mux, const Record& record) { return mux_test::says(mux, id, record); };
  const std::vector<std::byte> bytes(Stream::kWindowBytes + 1);
  BOOST_TEST(!says(*wire.server.mux, {.kind = RecordKind::open}));  // this number was used earlier
  // This number belongs to the client itself.
  BOOST_TEST(!says(*wire.client.mux, {.kind = RecordKind::open}));
  BOOST_TEST(!says(*wire.server.mux, {.kind = RecordKind::data}));
  BOOST_TEST(!says(*wire.client.mux, {.kind = RecordKind::refused}));  // the connection is already open
  BOOST_TEST(!says(*wire.server.mux, {.kind = RecordKind::credit, .limit = 1}));
  BOOST_TEST(says(*wire.server.mux, {.kind = RecordKind::data, .bytes = std::span(bytes).first(9)}));
  BOOST_TEST(says(*wire.server.mux, {.kind = RecordKind::fin}));
  BOOST_TEST(!says(*wire.server.mux, {.kind = RecordKind::fin}));
  BOOST_TEST(!says(*wire.server.mux, {.kind = RecordKind::data, .bytes = std::span(bytes).first(9)}));
  // These are more bytes than the receive credit permits.
  BOOST_TEST(!says(*wire.client.mux, {.kind = RecordKind::data, .bytes = bytes}));
  client.close(true);
  wire.settle();
  BOOST_TEST(wire.client.mux->size() == 0);
  BOOST_TEST(says(*wire.client.mux, {.kind = RecordKind::data, .bytes = std::span(bytes).first(9)}));
  BOOST_TEST(says(*wire.client.mux, {.kind = RecordKind::reset}));
}

BOOST_AUTO_TEST_CASE(a_lost_peer_ends_every_connection_with_its_error_after_what_had_come) {
  ConnectedWire wire;
  Socket& client = wire.connected;
  Socket server(wire.listener.accept()->stream);
  std::byte byte{7};
  BOOST_TEST((server.send({&byte, 1}) == Answer(1)));
  wire.settle();
  BOOST_TEST((client.connect() == Socket::Connecting::succeeded));
  wire.client.mux->lose(ETIMEDOUT);
  BOOST_TEST((client.events() & (POLLIN | POLLHUP | POLLERR)) == (POLLIN | POLLHUP | POLLERR));
  BOOST_TEST((client.receive({&byte, 1}, false) == Answer(1)));
  BOOST_TEST((client.receive({&byte, 1}, false) == Answer(std::unexpected(ETIMEDOUT))));
  BOOST_TEST((client.send({&byte, 1}) == Answer(std::unexpected(EPIPE))));
}

BOOST_AUTO_TEST_CASE(slots_are_granted_to_who_has_asked_and_no_more_than_there_are) {
  ConnectedWire wire;
  Stream& stream = *wire.connected.stream();
  const auto grants = [&](std::uint32_t slot) {
    return says(*wire.client.mux, stream.id(), {.kind = RecordKind::grant, .grant = {.slot = slot}});
  };
  const auto asks = [&](Side& side, ConnectionId id) {
    return says(*side.mux, id, {.kind = RecordKind::bulk});
  };
  BOOST_TEST(!grants(1));
  std::uint64_t number = 0;
  const std::vector<std::byte> bytes(100);
  BOOST_TEST((stream.send_in_place(bytes, nullptr, number) == Answer(std::unexpected(EAGAIN))));
  BOOST_TEST(!(stream.events() & POLLOUT));  // the peer has not answered yet
  BOOST_TEST(!grants(1));                    // the request has not been sent yet
  while (wire.client.say()) BOOST_REQUIRE(wire.hear(wire.client));
  BOOST_TEST(!asks(wire.server, stream.id()));  // this side has already sent its request
  BOOST_TEST(!grants(SlotMemory::kSlots));
  for (std::uint32_t slot = 0; slot < SlotMemory::kSlotsPerStream; ++slot) BOOST_TEST(grants(slot));
  BOOST_TEST(!grants(SlotMemory::kSlotsPerStream));
  BOOST_TEST(!grants(Grant::kNone));
  BOOST_TEST((stream.events() & POLLOUT));

  Socket listener(ConnectionKind::messages), messages(ConnectionKind::messages);
  listener.listen(1);
  wire.server.listener = &listener;
  wire.client.connect(messages);
  wire.settle();
  BOOST_TEST(!asks(wire.server, messages.stream()->id()));
}

BOOST_AUTO_TEST_CASE(who_is_not_accepted_yet_may_send_little_and_who_waits_for_a_place_nothing) {
  Wire wire;
  Socket listener;
  listener.listen(0);
  wire.server.listener = &listener;
  std::vector<Socket> clients(2);
  for (Socket& client : clients) wire.client.connect(client);
  wire.settle();
  const std::vector<std::byte> bytes(Stream::kSendBytes);
  BOOST_TEST(!says(*wire.server.mux, clients[1].stream()->id(),
                   {.kind = RecordKind::data, .bytes = {bytes.data(), 1}}));
  BOOST_REQUIRE((clients[0].connect() == Socket::Connecting::succeeded));
  BOOST_REQUIRE((clients[0].send(bytes) == Answer(bytes.size())));
  wire.settle();
  const auto connection = listener.accept();
  BOOST_REQUIRE(connection);
  BOOST_TEST(connection->stream->available() == Stream::kFirstBytes);
  wire.settle();
  BOOST_TEST(connection->stream->available() == Stream::kWindowBytes);
}

BOOST_AUTO_TEST_CASE(a_lost_peers_memory_goes_with_it) {
  ConnectedWire wire;
  wire.share_lanes();
  auto lanes = make_lane_pools();
  auto arena = memory::Arena::make(SlotMemory::kSlots * SlotMemory::kSlotBytes);
  BOOST_REQUIRE((lanes && arena));
  auto slots = std::make_shared<SlotMemory>(std::move(*arena), RemoteKey{}, 0);
  const std::weak_ptr<LanePool> lanes_are_there = lanes->first;
  const std::weak_ptr<SlotMemory> slots_are_there = slots;
  wire.server.mux->use_lanes(std::move(lanes->first), false);
  wire.server.mux->use_slots(std::move(slots));
  wire.server.mux->lose(ECONNRESET);
  BOOST_TEST((lanes_are_there.expired() && slots_are_there.expired()));
}

BOOST_AUTO_TEST_SUITE_END()
