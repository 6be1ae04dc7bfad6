#include "dataplane/fabric/frame_ring.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <deque>

BOOST_AUTO_TEST_SUITE(frame_ring_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

constexpr std::uint32_t kRing = 4096, kMostFrames = 16;

/// A writer and a reader, with a wire between them. The wire delivers frames in order, and only when the test
/// requests it.
struct Pair {
  FrameWriter writer{kRing, kMostFrames};
  FrameReader reader{kRing};
  struct Frame {
    std::uint32_t offset, bytes, number;
  };
  std::deque<Frame> on_wire;
  std::uint32_t unwritten = 0, sent = 0, read = 0;
  // For each byte, the number of the frame to which it belongs. Frames are numbered from 1.
  std::vector<std::uint32_t> memory = std::vector<std::uint32_t>(kRing);

  bool write(std::uint32_t least, std::uint32_t most, bool urgent = false) {
    const auto room = writer.room(least, most, urgent);
    if (!room) return false;
    RC_ASSERT(room->bytes >= least && room->bytes <= most && room->offset + room->bytes <= kRing);
    ++sent;
    // The peer must already have read the earlier bytes at this position, so that no frame in flight is
    // overwritten.
    for (std::uint32_t i = 0; i < room->bytes; ++i) RC_ASSERT(memory[room->offset + i] <= read);
    for (std::uint32_t i = 0; i < room->bytes; ++i) memory[room->offset + i] = sent;
    writer.wrote(*room, room->bytes);
    on_wire.push_back({room->offset, room->bytes, sent});
    ++unwritten;
    return true;
  }
  void arrive() {
    const Frame frame = on_wire.front();
    on_wire.pop_front();
    for (std::uint32_t i = 0; i < frame.bytes; ++i) RC_ASSERT(memory[frame.offset + i] == frame.number);
    RC_ASSERT(reader.on_frame(frame.offset, frame.bytes).has_value());
    read = frame.number;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(no_frame_is_overwritten_before_it_was_read_whatever_the_order_of_events) {
  BOOST_TEST(rc::check([] {
    Pair pair;
    for (int step = 0; step < 400; ++step) {
      switch (*rc::gen::inRange(0, 4)) {
        case 0: {
          const auto least = *rc::gen::inRange(8u, 700u);
          pair.write(least, least + *rc::gen::inRange(0u, 700u));
          break;
        }
        case 1:
          if (!pair.on_wire.empty()) pair.arrive();
          break;
        case 2:
          if (pair.unwritten > pair.on_wire.size()) {
            pair.writer.on_written();
            --pair.unwritten;
          }
          break;
        default: RC_ASSERT(pair.writer.on_consumed(pair.reader.consumed()).has_value());
      }
    }
  }));
}

BOOST_AUTO_TEST_CASE(all_of_a_ring_can_be_used_again_and_again) {
  Pair pair;
  for (int round = 0; round < 10'000; ++round) {
    BOOST_REQUIRE(pair.write(8, 1000));
    pair.arrive();
    pair.writer.on_written();
    BOOST_REQUIRE(pair.writer.on_consumed(pair.reader.consumed()));
  }
}

BOOST_AUTO_TEST_CASE(a_full_ring_has_room_for_credit_still) {
  Pair pair;
  while (pair.write(8, 512)) {
  }
  BOOST_TEST(!pair.writer.room(8, 8));
  BOOST_TEST(pair.writer.room(8, 8, true).has_value());
}

BOOST_AUTO_TEST_CASE(a_reader_owes_credit_after_a_quarter_of_the_ring) {
  FrameReader reader(kRing);
  BOOST_REQUIRE(reader.on_frame(0, kRing / 4 - 8));
  BOOST_TEST(!reader.owes_credit());
  BOOST_REQUIRE(reader.on_frame(kRing / 4 - 8, 8));
  BOOST_TEST(reader.owes_credit());
  reader.told();
  BOOST_TEST(!reader.owes_credit());
}

BOOST_AUTO_TEST_CASE(a_lying_peer_is_refused_by_name) {
  const auto refused = [](const Result<void>& result) {
    return !result && result.error().code == Errc::protocol_error;
  };
  FrameReader reader(kRing);
  BOOST_TEST(refused(reader.on_frame(8, 8)));
  BOOST_TEST(refused(reader.on_frame(0, 0)));
  BOOST_TEST(refused(reader.on_frame(0, kRing + 8)));
  BOOST_REQUIRE(reader.on_frame(0, 64));
  BOOST_TEST(refused(reader.on_frame(64, kRing)));
  FrameWriter writer(kRing, kMostFrames);
  BOOST_TEST(refused(writer.on_consumed(8)));
  writer.wrote(*writer.room(64, 64), 64);
  BOOST_REQUIRE(writer.on_consumed(64));
  BOOST_TEST(refused(writer.on_consumed(0)));
  BOOST_TEST(refused(writer.on_consumed(72)));
}

BOOST_AUTO_TEST_SUITE_END()
