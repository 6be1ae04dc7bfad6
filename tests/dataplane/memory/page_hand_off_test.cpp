#include "dataplane/memory/page_hand_off.hpp"

#include <rapidcheck.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "dataplane/memory/arena.hpp"

BOOST_AUTO_TEST_SUITE(page_hand_off_test)

using namespace rdmc::memory;

namespace {

constexpr std::size_t kHuge = kHugePageBytes, kBytes = 2 * kHuge;

void fill(std::span<std::byte> bytes, int value) {
  std::memset(bytes.data(), value, bytes.size());
}
bool all(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}
/// Hands over whatever consists of whole huge pages.
std::size_t hand_off_all(std::span<std::byte> source, std::span<std::byte> destination) {
  return hand_off(source, destination, kHuge);
}

/// MREMAP_DONTUNMAP is in Linux since 5.7.
bool kernel_moves_pages() {
  auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
  return hand_off_all(source.bytes(), destination.bytes()) == 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(this_kernel_moves_pages) {
  BOOST_TEST(kernel_moves_pages());
}

BOOST_AUTO_TEST_CASE(whole_huge_pages_are_moved_and_both_ends_are_copied) {
  auto source = *Arena::make(2 * kBytes), destination = *Arena::make(2 * kBytes);
  for (const std::size_t skipped : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, kHuge - 1}) {
    fill(source.bytes(), 7);
    fill(destination.bytes(), 1);
    const std::size_t length = 2 * kBytes - skipped - 200;
    const auto target = destination.bytes().subspan(skipped, length);
    const std::size_t before = skipped == 0 ? 0 : kHuge - skipped;
    BOOST_TEST(hand_off_all(source.bytes().subspan(skipped, length), target) == before + kHuge - 200);
    BOOST_TEST(all(target, 7));
    BOOST_TEST(all(destination.bytes().first(skipped), 1));
    BOOST_TEST(all(destination.bytes().last(200), 1));
  }
}

BOOST_AUTO_TEST_CASE(fewer_bytes_than_the_least_number_are_copied) {
  auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
  fill(source.bytes(), 5);
  BOOST_TEST(!moves_pages(source.bytes(), destination.bytes(), kBytes + 1));
  BOOST_TEST(hand_off(source.bytes(), destination.bytes(), kBytes + 1) == kBytes);
  BOOST_TEST(hand_off(source.bytes(), destination.bytes()) == kBytes);
  BOOST_TEST(all(destination.bytes(), 5));
  BOOST_TEST(all(source.bytes(), 5));
}

BOOST_AUTO_TEST_CASE(ranges_at_different_offsets_are_copied) {
  auto source = *Arena::make(2 * kBytes), destination = *Arena::make(2 * kBytes);
  fill(source.bytes(), 7);
  const auto from = [](Arena& arena, std::size_t offset) { return arena.bytes().subspan(offset, kBytes); };
  for (const std::size_t offset : {std::size_t{1}, kPageBytes}) {
    BOOST_TEST(hand_off_all(from(source, offset), from(destination, 0)) == kBytes);
    BOOST_TEST(all(from(destination, 0), 7));
  }
  BOOST_TEST(hand_off_all(source.bytes().subspan(10, 100), destination.bytes().subspan(10, 100)) == 100u);
  BOOST_TEST(hand_off_all({}, {}) == 0u);
}

BOOST_AUTO_TEST_CASE(a_source_can_be_filled_and_handed_off_over_and_over) {
  auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
  for (int i = 0; i < 50; ++i) {
    fill(source.bytes(), i);
    BOOST_TEST(hand_off_all(source.bytes(), destination.bytes()) == 0u);
    BOOST_TEST(all(destination.bytes(), i));
  }
}

// Each call replaces a part of the destination's mapping. Afterwards the destination consists of several
// mappings.
BOOST_AUTO_TEST_CASE(hand_offs_of_any_parts_give_what_copies_of_them_give) {
  rc::check([] {
    constexpr std::size_t kUnits = 5;
    auto destination = *Arena::make(kUnits * kHuge);
    std::vector<std::byte> model(kUnits * kHuge);
    for (int i = 1; i <= 6; ++i) {
      const auto units = *rc::gen::inRange<std::size_t>(1, kUnits);
      const auto at = *rc::gen::inRange<std::size_t>(0, kUnits - units + 1);
      const auto cut = *rc::gen::inRange<std::size_t>(0, 3 * kPageBytes);
      auto source = *Arena::make(units * kHuge);
      fill(source.bytes(), i);
      const auto target = destination.bytes().subspan(at * kHuge, units * kHuge - cut);
      const std::size_t copied = hand_off_all(source.bytes().first(target.size()), target);
      RC_ASSERT(copied == target.size() % kHuge);
      fill(std::span(model).subspan(at * kHuge, target.size()), i);
      RC_ASSERT(std::ranges::equal(destination.bytes(), model));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_destination_of_several_mappings_gets_the_pages) {
  auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
  fill(source.bytes(), 3);
  BOOST_REQUIRE(madvise(destination.bytes().data(), kHuge / 2, MADV_DONTFORK) == 0);  // splits the mapping
  BOOST_TEST(hand_off_all(source.bytes(), destination.bytes()) == 0u);
  BOOST_TEST(all(destination.bytes(), 3));
}

// A source of several mappings is not what the function expects. It must still lose no byte.
BOOST_AUTO_TEST_CASE(a_source_of_several_mappings_is_copied) {
  auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
  fill(source.bytes(), 3);
  fill(destination.bytes(), 1);
  BOOST_REQUIRE(madvise(source.bytes().data(), kHuge / 2, MADV_DONTFORK) == 0);
  BOOST_TEST(hand_off_all(source.bytes(), destination.bytes()) == kBytes);
  BOOST_TEST(all(destination.bytes(), 3));
}

// The destination must never be a gap in which the other thread's memory could be mapped.
BOOST_AUTO_TEST_CASE(memory_that_another_thread_maps_meanwhile_stays_its_own) {
  std::atomic<bool> is_over = false;
  std::atomic<int> damaged = 0;
  std::thread other([&] {
    while (!is_over) {
      auto* const memory = static_cast<std::byte*>(
          mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      if (memory == MAP_FAILED) continue;
      for (std::size_t at = 0; at < kBytes; at += kHuge / 4) memory[at] = std::byte{42};
      for (std::size_t at = 0; at < kBytes; at += kHuge / 4) damaged += memory[at] != std::byte{42} ? 1 : 0;
      munmap(memory, kBytes);
    }
  });
  for (int i = 0; i < 200; ++i) {
    auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
    fill(source.bytes(), i);
    if (i % 2 == 0) madvise(source.bytes().data(), kHuge / 2, MADV_DONTFORK);
    if (i % 3 == 0) madvise(destination.bytes().data(), kHuge / 2, MADV_DONTFORK);
    hand_off_all(source.bytes(), destination.bytes());
    BOOST_TEST(all(destination.bytes(), i));
  }
  is_over = true;
  other.join();
  BOOST_TEST(damaged == 0);
}

BOOST_AUTO_TEST_CASE(memory_that_others_share_is_copied_into_and_stays_shared) {
  const int file = memfd_create("shared", 0);
  BOOST_REQUIRE(file >= 0);
  BOOST_REQUIRE(ftruncate(file, kBytes) == 0);
  for (const int kind : {MAP_SHARED, MAP_PRIVATE}) {
    auto source = *Arena::make(kBytes);
    fill(source.bytes(), 7);
    const auto map = [&](int flags) {
      void* const at = map_aligned(kBytes, PROT_NONE);
      return std::span(
          static_cast<std::byte*>(mmap(at, kBytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0)),
          kBytes);
    };
    const auto ours = map(kind), theirs = map(MAP_SHARED);
    fill(theirs, 1);
    BOOST_TEST(hand_off_all(source.bytes(), ours) == kBytes);
    BOOST_TEST(all(ours, 7));
    BOOST_TEST(all(theirs, kind == MAP_SHARED ? 7 : 1));
    munmap(ours.data(), kBytes);
    munmap(theirs.data(), kBytes);
  }
  close(file);
}

BOOST_AUTO_TEST_CASE(a_hand_off_leaves_no_mapping_behind) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  auto source = *Arena::make(kBytes), destination = *Arena::make(kBytes);
  hand_off_all(source.bytes(), destination.bytes());
  const auto before = mappings();
  for (int i = 0; i < 100; ++i) hand_off_all(source.bytes(), destination.bytes());
  BOOST_TEST(mappings() <= before + 1);
}

BOOST_AUTO_TEST_CASE(an_arena_larger_than_the_address_space_is_refused) {
  BOOST_TEST(!Arena::make(SIZE_MAX).has_value());
  BOOST_TEST(!Arena::make(SIZE_MAX - kPageBytes).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
