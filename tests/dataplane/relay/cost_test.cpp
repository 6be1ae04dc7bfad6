// Tests long messages in small ring buffers: their block indices have more than 16 bits, and no block may
// cost an allocation.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>

#include "dataplane/relay/relay.hpp"
#include "tests/sampled.hpp"

namespace {
std::size_t allocations = 0;
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace rdmc::relay {
namespace {

constexpr RemoteKey kKey{77};
constexpr std::uint64_t kAddress = 0x10'0000'0000;

/// Carries the blocks of a message, one at a time, from the root to the receiver of a group of two, through
/// small ring buffers. Returns the number of allocations after the setup of both relays.
std::size_t carry(std::uint64_t length, std::uint32_t block_bytes, std::uint64_t blocks_to_carry) {
  Relay root = *Relay::create({.rank = Rank{0}, .members = 2, .block_bytes = block_bytes});
  Relay receiver =
      *Relay::create({.rank = Rank{1}, .members = 2, .block_bytes = block_bytes, .slot_id = 0xABCD});
  for (Relay* relay : {&root, &receiver}) {
    BOOST_REQUIRE(relay->set_length(length).has_value());
    BOOST_REQUIRE(relay->set_memory({16, kAddress, kKey}).has_value());
  }
  const std::size_t before = allocations;
  bool right = true;
  for (std::uint64_t block = 0; block < blocks_to_carry; ++block) {
    Rank to{};
    for (BlockGrant grant; receiver.poll_grant(to, grant);)
      right &= root.on_grant(Rank{1}, grant).has_value();
    root.on_available(block + 1);
    BlockWrite write;
    right &= root.poll_write(write) && write.block == block &&
             write.local_offset == block % 16 * block_bytes &&
             write.remote_address == kAddress + block % 16 * block_bytes &&
             write.immediate == (0xABCD'0000 | (block & 0xFFFF));
    right &= receiver.on_block(Rank{0}, write.immediate, write.bytes) == block;
    root.on_write_complete(Rank{1}, block);
    receiver.on_consumed(block);
    right &= root.released_limit() == block + 1 && receiver.released_limit() == block + 1;
  }
  BOOST_TEST(right);
  BOOST_TEST(root.is_complete() == (blocks_to_carry == root.block_count()));
  return allocations - before;
}

BOOST_AUTO_TEST_CASE(more_than_65535_blocks_and_indices_far_beyond_16_bits_arrive_in_order) {
  const std::uint64_t kPast = (std::uint64_t{1} << all_or(24, 20)) + 1000;
  carry(kPast, 1, kPast);
}

BOOST_AUTO_TEST_CASE(nothing_is_allocated_per_block) {
  BOOST_TEST(carry(std::uint64_t{5} << 40, 1 << 20, 70'000) == 0u);
}

BOOST_AUTO_TEST_CASE(a_relay_of_terabytes_in_a_ring_is_small) {
  const std::size_t before = allocations;
  Relay relay = *Relay::create({.rank = Rank{500}, .members = 1024, .block_bytes = 1 << 20});
  BOOST_REQUIRE(relay.set_length(std::uint64_t{5} << 40).has_value());
  BOOST_REQUIRE(relay.set_memory({64, kAddress, kKey}).has_value());
  BOOST_TEST(relay.block_count() == std::uint64_t{5} << 20);
  BOOST_TEST(allocations - before < 40u);
}

}  // namespace
}  // namespace rdmc::relay
