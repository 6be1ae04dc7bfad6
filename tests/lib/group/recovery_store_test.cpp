// Tests that the blocks of several messages, which are anywhere in memory, travel through a ring buffer as
// one row of bytes.
#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <set>

#include "lib/group/recovery_plan.hpp"
#include "lib/group/recovery_store.hpp"

BOOST_AUTO_TEST_SUITE(recovery_store_test)

using namespace rdmc;
using namespace rdmc::group;

namespace {

constexpr std::uint32_t kBlock = 16;
using Bytes = std::vector<std::byte>;
using BlockId = std::pair<std::uint64_t, std::uint64_t>;  // A message, and a block of this message.

/// The pieces of a row. Each piece has at most the length of a block, and its own memory.
struct Row {
  explicit Row(const std::vector<std::size_t>& lengths) {
    for (const std::size_t length : lengths) memory.emplace_back(length);
  }
  std::vector<RecoveryStore::Piece> pieces(const std::vector<bool>& wanted) {
    std::vector<RecoveryStore::Piece> all;
    for (std::size_t i = 0; i < memory.size(); ++i)
      all.push_back({.bytes = memory[i], .message = i / 3, .block = i % 3, .is_wanted = wanted[i]});
    return all;
  }
  std::vector<Bytes> memory;
};

/// Carries the row from the source's ring buffer to the sink's ring buffer, as a relay does. It carries a
/// block only when the source has the block and the slot is free. Returns the number of bytes that it has
/// carried.
std::uint64_t carry(RecoveryStore& source, RecoveryStore& sink, std::uint64_t slots) {
  std::vector<std::uint64_t> consumed;
  std::uint64_t next = 0, total = 0;
  for (const std::uint64_t blocks = relay::block_count(source.size(), kBlock); next < blocks;) {
    const std::uint64_t available = *source.available();
    RC_ASSERT(available > next);
    RC_ASSERT(available <= consumed.size() + slots);
    for (; next < available; ++next) {
      const auto bytes = std::min<std::uint64_t>(kBlock, source.size() - next * kBlock);
      const std::uint64_t at = next % slots * kBlock;
      std::ranges::copy(source.memory().subspan(at, bytes), sink.memory().subspan(at).begin());
      sink.arrived(next, static_cast<std::uint32_t>(bytes));
      total += bytes;
    }
    RC_ASSERT(sink.poll_consumed(consumed).has_value());
    RC_ASSERT(consumed.size() == next);
    std::ranges::fill(source.memory(), std::byte{0xEE});
    source.released(next);
  }
  return total;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_wanted_arrives_once_through_however_small_a_ring_and_nothing_else_is_touched) {
  BOOST_TEST(rc::check([] {
    const auto lengths = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, kBlock + 1)));
    const auto wanted = *rc::gen::container<std::vector<bool>>(lengths.size(), rc::gen::arbitrary<bool>());
    const auto slots = *rc::gen::inRange<std::uint64_t>(1, 5);
    Row from(lengths), to(lengths);
    for (Bytes& bytes : from.memory)
      for (std::byte& b : bytes) b = static_cast<std::byte>(*rc::gen::inRange(0, 256));
    Bytes source_ring(slots * kBlock), sink_ring(slots * kBlock);
    std::multiset<BlockId> recovered;
    RecoveryStore source(from.pieces(std::vector<bool>(lengths.size(), true)), source_ring, slots, kBlock,
                         {});
    RecoveryStore sink(
        to.pieces(wanted), sink_ring, slots, kBlock, [&](std::uint64_t message, std::uint64_t block) {
          const std::size_t i = message * 3 + block;
          RC_ASSERT(to.memory[i] == from.memory[i]);  // The block must be complete when it is reported.
          recovered.emplace(message, block);
        });
    RC_ASSERT(source.size() == sink.size());
    RC_ASSERT(carry(source, sink, slots) == source.size());

    std::multiset<BlockId> expected;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (wanted[i]) expected.emplace(i / 3, i % 3);
      RC_ASSERT(to.memory[i] == (wanted[i] ? from.memory[i] : Bytes(lengths[i])));
    }
    RC_ASSERT(recovered == expected);
  }));
}

BOOST_AUTO_TEST_CASE(blocks_may_come_in_any_order_within_the_ring) {
  Row from({10, 16, 7, 15}), to({10, 16, 7, 15});
  std::uint8_t next = 0;
  for (Bytes& bytes : from.memory)
    for (std::byte& b : bytes) b = std::byte{++next};
  const std::vector<bool> all(4, true);
  Bytes source_ring(3 * kBlock), sink_ring(3 * kBlock);
  std::vector<BlockId> recovered;
  RecoveryStore source(from.pieces(all), source_ring, 3, kBlock, {});
  RecoveryStore sink(to.pieces(all), sink_ring, 3, kBlock, [&](std::uint64_t message, std::uint64_t block) {
    recovered.emplace_back(message, block);
  });
  BOOST_TEST(*source.available() == 3u);
  std::ranges::copy(source_ring, sink_ring.begin());
  for (const std::uint64_t block : {2, 0, 1}) sink.arrived(block, kBlock);
  BOOST_TEST((to.memory == from.memory));
  BOOST_TEST((recovered == std::vector<BlockId>{{1, 0}, {0, 0}, {0, 1}, {0, 2}}));
}

BOOST_AUTO_TEST_SUITE_END()
