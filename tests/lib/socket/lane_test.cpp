#include "lib/socket/lane.hpp"

#include <poll.h>
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/lib/socket/wire.hpp"

BOOST_AUTO_TEST_SUITE(lane_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

/// This process's own memory in the role of a peer's memory. A test can set a function that runs while the
/// memory is read, and can make reads fail.
struct WatchedMemory final : fabric::PeerMemory {
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override {
    const std::size_t count = std::min(to.size(), most);
    if (count != 0) std::memcpy(to.data(), reinterpret_cast<const void*>(address), count);
    if (while_read) std::exchange(while_read, nullptr)();
    return count;
  }
  bool is_present(std::uint64_t, std::size_t) const override { return pages_are_there; }
  mutable std::function<void()> while_read;
  std::size_t most = std::size_t{1} << 30;
  bool pages_are_there = true;
};

/// Reads as an application's call does: first the bytes that have arrived, by `receive`, and then the lent
/// bytes, from `reader`. The reader is a LaneReader or a Stream. `bytes_in` returns the bytes of its loan.
template <typename Reader, typename Receive, typename BytesIn>
std::size_t read_there(Reader& reader, std::span<std::byte> out, bool peek, Receive receive,
                       BytesIn bytes_in) {
  std::size_t done = 0;
  for (int tries = 0; tries < 4 && done < out.size(); ++tries) {
    done += receive(out.subspan(done));
    while (done < out.size()) {
      const auto loan = reader.lent(out.size() - done, peek ? done : 0);
      if (!loan) break;
      const LentBytes& bytes = std::invoke(bytes_in, *loan);
      if (!bytes.memory->is_present(bytes.address, bytes.count)) {
        reader.decline(*loan);
        return done;
      }
      const std::size_t copied = bytes.memory->read(bytes.address, out.subspan(done, bytes.count));
      const std::size_t counted = reader.settle(*loan, copied, peek);
      done += counted;
      if (counted == 0) break;
      if (peek) return done;
    }
    if (peek) break;
  }
  return done;
}

/// Both ends of a lane. Each 8 source bytes contain their own position.
struct AdvertisingLane {
  AdvertisingLane() : source(4 * LanePool::kRingBytes), out(source.size()) {
    for (std::size_t i = 0; i + 8 <= source.size(); i += 8) std::memcpy(&source[i], &i, 8);
  }
  std::span<const std::byte> left(std::size_t from, std::size_t most) const {
    return std::span(source).subspan(std::min(from, source.size()),
                                     std::min(most, source.size() - std::min(from, source.size())));
  }
  void advertise(std::size_t bytes, std::size_t next) {
    const auto first = left(gone, bytes);
    if (!first.empty()) writer.advertise(first, left(gone + first.size(), next));
  }
  /// Reads, and checks that the bytes that were read are the next ones.
  std::size_t read(std::size_t most, bool peek = false) {
    const auto to = std::span(out).first(std::min(most, out.size()));
    struct Lane {
      LaneReader& reader;
      auto lent(std::size_t bytes, std::size_t peeked) const { return reader.lent(bytes, peeked); }
      std::size_t settle(const LentBytes& lent, std::size_t count, bool peek) const {
        return reader.settle(lent, count, peek);
      }
      void decline(const LentBytes&) const { reader.decline(); }
    } its{reader};
    const std::size_t count = read_there(
        its, to, peek, [&](std::span<std::byte> rest) { return reader.read(rest, peek); }, std::identity());
    is_intact = is_intact && std::memcmp(to.data(), source.data() + heard, count) == 0;
    if (!peek) heard += count;
    return count;
  }

  std::vector<std::byte> source, out;
  std::shared_ptr<WatchedMemory> memory = std::make_shared<WatchedMemory>();
  std::shared_ptr<LanePool> pool = make_lane_pools(memory)->first;
  LaneMemory lane = pool->memory(pool->claim().value());
  LaneWriter writer{lane};
  LaneReader reader{lane};
  // The numbers of bytes that the writer has sent and the reader has read.
  std::size_t gone = 0, heard = 0;
  bool is_intact = true;
};

/// A connection that uses a lane. Its reader has not yet read `much` and `few`.
struct LanedWire : ConnectedWire {
  explicit LanedWire(const std::shared_ptr<const fabric::PeerMemory>& memory = nullptr)
      : reader(listener.accept()->stream) {
    share_lanes(memory);
    BOOST_REQUIRE((connected.connect() == Socket::Connecting::succeeded));
    for (const auto* bytes : {&much, &few}) {
      BOOST_REQUIRE(connected.send(*bytes));
      settle();
    }
    BOOST_REQUIRE((reader.stream()->incoming() != nullptr));
  }

  const std::vector<std::byte> much = std::vector<std::byte>(Stream::kBytesBeforeLane);
  const std::vector<std::byte> few = std::vector<std::byte>(10);
  std::vector<std::byte> room = std::vector<std::byte>(LanePool::kRingBytes);
  Socket reader;
};

}  // namespace

BOOST_AUTO_TEST_CASE(who_cannot_be_woken_is_told_by_a_record_of_what_happens_in_a_lane) {
  LanedWire wire;
  auto &much = wire.much, &few = wire.few;
  auto& room = wire.room;
  Socket& reader = wire.reader;
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
  BOOST_TEST(!wire.server.say());  // too few bytes are free to wake the writer
  BOOST_TEST(reader.receive(room, false).value() == LanePool::kRingBytes - 100);
  BOOST_TEST(wire.server.say());
  BOOST_TEST((wire.connected.events() & POLLOUT) != 0);

  // There are no unread bytes. Nobody will read the bytes that are sent from now on.
  reader.close(false);
  wire.settle();
  BOOST_REQUIRE(wire.connected.send(few));
  wire.settle();
  BOOST_TEST((wire.connected.send(few) == Answer(std::unexpected(EPIPE))));
}

BOOST_AUTO_TEST_CASE(what_came_in_a_lane_before_a_shutdown_is_read_and_what_comes_after_it_resets) {
  LanedWire wire;
  auto &much = wire.much, &few = wire.few;
  auto& room = wire.room;
  Socket& reader = wire.reader;
  BOOST_REQUIRE(wire.connected.send(few));
  wire.settle();
  BOOST_REQUIRE(reader.shutdown(Stream::kShutRead | Stream::kShutWrite));
  wire.settle();
  BOOST_REQUIRE(wire.connected.send(few));
  wire.settle();
  BOOST_TEST(reader.receive(room, false).value() == much.size() + 2 * few.size());
  BOOST_TEST((reader.receive(room, false) == Answer(std::unexpected(ECONNRESET))));
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

BOOST_AUTO_TEST_CASE(what_is_advertised_comes_once_and_in_order_whoever_cancels_or_cannot_read_it_and_when) {
  BOOST_TEST(rc::check([] {
    AdvertisingLane lane;
    const auto size = rc::gen::inRange<std::size_t>(1, LanePool::kRingBytes);
    const auto writes = [&] {
      switch (*rc::gen::inRange(0, 4)) {
        case 0: lane.gone += lane.writer.write(lane.left(lane.gone, *size)); break;
        case 1:
          if (!lane.writer.is_advertising() && lane.writer.may_advertise()) lane.advertise(*size, *size);
          break;
        case 2: lane.gone += lane.writer.collect(); break;
        default: lane.gone += lane.writer.cancel(); break;
      }
    };
    for (int steps = *rc::gen::inRange(1, 60); steps > 0; --steps) {
      lane.memory->most = *rc::gen::weightedElement<std::size_t>({{6, 1 << 30}, {3, 1000}, {1, 0}});
      lane.memory->pages_are_there = *rc::gen::inRange(0, 4) != 0;
      if (*rc::gen::inRange(0, 3) == 0)
        lane.memory->while_read = [&] {
          for (int more = *rc::gen::inRange(1, 4); more > 0; --more) writes();
        };
      if (*rc::gen::arbitrary<bool>())
        writes();
      else
        lane.read(*size, *rc::gen::inRange(0, 4) == 0);
    }
    lane.memory->while_read = nullptr;
    lane.memory->pages_are_there = true;
    lane.gone += lane.writer.cancel();
    while (lane.read(lane.out.size()) != 0) {
    }
    RC_ASSERT(lane.is_intact);
    RC_ASSERT(lane.heard == lane.gone);
  }));
}

BOOST_AUTO_TEST_CASE(an_advert_is_read_where_it_lies_and_what_follows_it_is_there_at_once) {
  AdvertisingLane lane;
  lane.gone += lane.writer.write(lane.left(0, 100));
  lane.advertise(200'000, 1000);
  BOOST_TEST(lane.writer.write(lane.left(0, 1)) == 0u);  // this byte would overtake the advert
  BOOST_TEST(!lane.writer.is_writable());
  BOOST_TEST(!LaneWriter::has_room(lane.lane));
  BOOST_TEST(LaneReader::has_bytes(lane.lane));
  BOOST_TEST(lane.reader.available() == 200'100u);
  BOOST_TEST(lane.reader.in_ring() == 100u);
  BOOST_TEST(lane.read(150'100, true) == 150'100u);
  lane.memory->while_read = [&] {
    lane.gone += lane.writer.cancel();
    lane.advertise(200'000, 1000);
  };
  // The bytes of a cancelled advert must not be returned.
  BOOST_TEST(lane.read(150'100, true) == 100u);
  BOOST_TEST(lane.read(150'100) == 150'100u);
  BOOST_TEST(lane.writer.collect() == 150'000u);
  BOOST_TEST(lane.read(lane.out.size()) == 50'000u);
  BOOST_TEST(LaneWriter::has_room(lane.lane));
  BOOST_TEST(lane.writer.collect() == 51'000u);
  BOOST_TEST(lane.read(lane.out.size()) == 1000u);
  BOOST_TEST(lane.is_intact);
}

BOOST_AUTO_TEST_CASE(two_threads_advertise_cancel_write_and_read) {
  AdvertisingLane lane;
  std::atomic<bool> is_over = false;
  std::thread reads([&] {
    std::size_t most = 1;
    while (lane.read(most = most * 5 % 100'003) != 0 || !is_over.load()) {
    }
    while (lane.read(lane.out.size()) != 0) {
    }
  });
  std::uint32_t random = 1;
  while (lane.gone < lane.source.size()) {
    random = random * 1664525 + 1013904223;
    const std::size_t size = random >> 20;
    lane.gone += lane.writer.cancel();
    lane.gone += lane.writer.write(lane.left(lane.gone, size));
    lane.advertise(size, size / 4);
    if ((random & 0x8000) != 0) lane.gone += lane.writer.collect();
  }
  is_over = true;
  reads.join();
  BOOST_TEST(lane.is_intact);
  BOOST_TEST(lane.heard == lane.gone);
}

BOOST_AUTO_TEST_CASE(terms_that_cannot_be_are_not_believed) {
  AdvertisingLane lane;
  LaneAdvert& advert = lane.lane.head->advert;
  lane.advertise(1000, 0);
  const std::uint64_t terms = advert.terms;
  for (const std::uint64_t lie :
       std::initializer_list<std::uint64_t>{terms + 1, terms + (1ULL << 32) - 1000, ~0ULL, 0}) {
    advert.terms = lie;
    BOOST_TEST(lane.writer.collect() == 0u);
    BOOST_TEST(lane.writer.is_advertising());
  }
  advert.terms = terms - 400;
  BOOST_TEST(lane.writer.collect() == 400u);
  advert.terms = terms;  // with this value, more bytes are left than before
  BOOST_TEST(lane.writer.cancel() == 0u);
  // If the writer lies, the reader may get any bytes that the kernel lets it read, but not more bytes than it
  // wants.
  advert.terms = ~0ULL;
  advert.end = reinterpret_cast<std::uint64_t>(lane.source.data()) + ~std::uint32_t{0};
  BOOST_TEST(lane.read(1000) == 1000u);
}

BOOST_AUTO_TEST_CASE(what_is_not_present_is_declined_and_lent_again_when_its_copy_has_been_read) {
  AdvertisingLane lane;
  lane.advertise(1000, 0);
  lane.memory->pages_are_there = false;
  lane.lane.head->writer.asleep = 1;
  BOOST_TEST(lane.read(1000) == 0u);
  BOOST_TEST(lane.lane.head->writer.asleep.load() == 0u);
  BOOST_TEST(lane.reader.available() == 0u);
  // Because of this result, calls do not check this lane repeatedly.
  BOOST_TEST(!LaneReader::has_bytes(lane.lane));
  BOOST_TEST(LaneWriter::has_room(lane.lane));
  BOOST_TEST(!lane.writer.may_advertise());
  BOOST_TEST(lane.writer.cancel() == 0u);
  BOOST_TEST((lane.gone += lane.writer.write(lane.left(0, 1000))) == 1000u);
  lane.memory->pages_are_there = true;
  BOOST_TEST(lane.read(10, true) == 10u);
  BOOST_TEST(!lane.writer.may_advertise());
  BOOST_TEST(lane.read(10) == 10u);
  BOOST_TEST(lane.writer.may_advertise());
  lane.advertise(1000, 0);
  BOOST_TEST(lane.read(1990) == 1990u);
  BOOST_TEST(lane.is_intact);
}

BOOST_AUTO_TEST_CASE(what_is_lent_does_not_count_when_the_lane_is_refused_or_the_writer_cancels_meanwhile) {
  for (const bool cancels : {true, false}) {
    AdvertisingLane lane;
    lane.advertise(1000, 0);
    const auto lent = lane.reader.lent(1000);
    BOOST_REQUIRE(lent.has_value());
    if (cancels)
      lane.writer.cancel();
    else
      lane.reader.refuse();
    BOOST_TEST(lane.reader.settle(*lent, 1000, false) == 0u);
    BOOST_TEST(lane.writer.cancel() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(who_may_not_read_the_writers_memory_says_so_and_is_written_to) {
  AdvertisingLane lane;
  BOOST_TEST(lane.writer.may_advertise());
  lane.advertise(1000, 0);
  lane.memory->most = 0;
  lane.lane.head->writer.asleep = 1;
  BOOST_TEST(lane.read(1000) == 0u);
  BOOST_TEST(lane.lane.head->writer.asleep.load() == 0u);
  BOOST_TEST(LaneWriter::has_room(lane.lane));
  BOOST_TEST(!lane.writer.may_advertise());
  BOOST_TEST(lane.reader.available() == 0u);
  BOOST_TEST(lane.writer.cancel() == 0u);
  BOOST_TEST(lane.writer.write(lane.left(0, 1000)) == 1000u);
  BOOST_TEST(lane.read(1000) == 1000u);
  BOOST_TEST(lane.is_intact);
}

namespace {

/// A stream whose sender waits in a call. The reader has already read 100,000 bytes in the sender's memory.
struct LendingWire : LanedWire {
  LendingWire() : LanedWire(std::make_shared<WatchedMemory>()), bytes(4 * LanePool::kRingBytes) {
    sender = connected.stream();
    BOOST_REQUIRE(receive(much.size() + few.size()) == much.size() + few.size());
    BOOST_REQUIRE((sender->send(bytes, this) == Answer(std::unexpected(EAGAIN))));
    BOOST_REQUIRE(receive(100'000) == 100'000u);
  }
  std::size_t receive(std::size_t most) {
    std::vector<std::byte> out(most);
    return read_there(
        *reader.stream(), out, false,
        [&](std::span<std::byte> to) { return reader.receive(to, false).value_or(0); }, &Loan::bytes);
  }
  std::span<const std::byte> left(std::size_t from) const { return std::span(bytes).subspan(from); }

  std::vector<std::byte> bytes;
  std::shared_ptr<Stream> sender;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_call_that_ends_while_it_advertises_has_sent_what_was_read_and_may_send_more) {
  LendingWire wire;
  // This call fails because the advert belongs to another call.
  BOOST_TEST((wire.sender->send(wire.left(0), nullptr) == Answer(std::unexpected(EAGAIN))));
  BOOST_TEST((wire.connected.events() & POLLOUT) == 0);
  BOOST_TEST(!wire.sender->take_back(&wire.sender));
  BOOST_TEST(wire.sender->take_back(&wire).value() == 100'000U);
  BOOST_TEST((wire.sender->send(wire.left(100'000), nullptr) == Answer(LanePool::kRingBytes)));
  BOOST_TEST(wire.receive(wire.bytes.size()) == LanePool::kRingBytes);
  BOOST_TEST(wire.sender->send(wire.left(0), nullptr).has_value());
}

BOOST_AUTO_TEST_CASE(a_call_tries_again_with_what_has_not_been_read_and_fills_the_ring_when_nobody_reads) {
  LendingWire wire;
  const auto taken = wire.sender->send(wire.left(0), &wire);
  BOOST_TEST((taken == Answer(100'000)));
  BOOST_TEST((wire.sender->send(wire.left(100'000), &wire) == Answer(LanePool::kRingBytes)));
  const auto rest = wire.left(100'000 + LanePool::kRingBytes);
  BOOST_TEST((wire.sender->send(rest, &wire) == Answer(std::unexpected(EAGAIN))));
  BOOST_TEST(wire.receive(wire.bytes.size()) == wire.bytes.size() - 100'000 - Stream::kBehindAdvert);
  BOOST_TEST((wire.sender->send(rest, &wire) == Answer(rest.size() - Stream::kBehindAdvert)));
  BOOST_TEST((wire.sender->send(rest.last(Stream::kBehindAdvert), &wire) == Answer(Stream::kBehindAdvert)));
  BOOST_TEST(wire.receive(wire.bytes.size()) == Stream::kBehindAdvert);
}

BOOST_AUTO_TEST_CASE(who_shuts_down_closes_or_sends_in_place_cancels_what_another_call_advertises) {
  for (const int how : {0, 1, 2}) {
    LendingWire wire;
    if (how == 0) BOOST_REQUIRE(wire.connected.shutdown(Stream::kShutWrite));
    if (how == 1) wire.connected.close(false);
    std::uint64_t number = 0;
    const std::vector<std::byte> other(1);
    if (how == 2) {
      (void)wire.sender->send_in_place(other, nullptr, number);  // requests slots from the peer
      wire.settle();
      wire.client.mux->use_slots(nullptr);
      wire.server.mux->use_slots(nullptr);
      wire.settle();
    }
    if (how != 2) BOOST_TEST(wire.receive(1) == 0u);
    BOOST_TEST(wire.sender->take_back(&wire).value() == 100'000U);
    BOOST_TEST((wire.sender->send(wire.left(100'000), nullptr) ==
                (how == 2 ? Answer(LanePool::kRingBytes) : Answer(std::unexpected(EPIPE)))));
    wire.settle();
    BOOST_TEST(wire.receive(wire.bytes.size()) == (how == 2 ? LanePool::kRingBytes : 0));
  }
}

BOOST_AUTO_TEST_SUITE_END()
