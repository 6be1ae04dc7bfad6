#include "dataplane/memory/page_exchange.hpp"

#include <rapidcheck.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

BOOST_AUTO_TEST_SUITE(page_exchange_test)

using namespace rdmc::memory;

namespace {
constexpr std::size_t kBlock = 64 * kPageBytes;

void fill(std::span<std::byte> bytes, int value) {
  std::memset(bytes.data(), value, bytes.size());
}
bool all(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte b) { return b == static_cast<std::byte>(value); });
}
/// Exchanges everything that consists of whole pages.
const PageExchange kAlways({.of_pages = kPageBytes, .of_tables = kPageBytes});

std::byte* end_of(std::span<std::byte> bytes) {
  return bytes.data() + bytes.size();
}
}  // namespace

BOOST_AUTO_TEST_CASE(the_pages_of_two_ranges_change_places) {
  auto a = *Arena::make(3 * kBlock), b = *Arena::make(kBlock);
  fill(a.bytes(), 1);
  fill(b.bytes(), 2);
  BOOST_REQUIRE(PageExchange::exchange(a.bytes().subspan(kBlock, kBlock), b.bytes()));
  BOOST_TEST(all(a.bytes().subspan(0, kBlock), 1));
  BOOST_TEST(all(a.bytes().subspan(kBlock, kBlock), 2));
  BOOST_TEST(all(a.bytes().subspan(2 * kBlock), 1));
  BOOST_TEST(all(b.bytes(), 1));
}

BOOST_AUTO_TEST_CASE(a_range_can_be_exchanged_over_and_over) {
  auto a = *Arena::make(kBlock), b = *Arena::make(kBlock);
  fill(a.bytes(), 1);
  fill(b.bytes(), 2);
  for (int i = 0; i < 101; ++i) BOOST_REQUIRE(PageExchange::exchange(a.bytes(), b.bytes()));
  BOOST_TEST(all(a.bytes(), 2));
  BOOST_TEST(all(b.bytes(), 1));
}

BOOST_AUTO_TEST_CASE(a_hand_off_that_gains_copies_only_the_tail) {
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  const std::size_t length = kBlock - 100;
  fill(source.bytes(), 7);
  const std::size_t copied =
      kAlways.hand_off(source.bytes().first(length), destination.bytes().first(length));
  BOOST_TEST(copied == kPageBytes - 100);
  BOOST_TEST(all(destination.bytes().first(length), 7));
}

BOOST_AUTO_TEST_CASE(a_whole_page_hand_off_copies_nothing) {
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  fill(source.bytes(), 9);
  BOOST_TEST(kAlways.hand_off(source.bytes(), destination.bytes()) == 0u);
  BOOST_TEST(all(destination.bytes(), 9));
}

BOOST_AUTO_TEST_CASE(below_the_break_even_everything_is_copied) {
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  fill(source.bytes(), 5);
  const PageExchange late({.of_pages = 2 * kBlock, .of_tables = 2 * kBlock});
  BOOST_TEST(late.hand_off(source.bytes(), destination.bytes()) == kBlock);
  BOOST_TEST(all(destination.bytes(), 5));
  BOOST_TEST(all(source.bytes(), 5));
}

BOOST_AUTO_TEST_CASE(of_two_ranges_in_step_the_whole_pages_are_exchanged_and_both_ends_are_copied) {
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  for (const std::size_t skipped : {std::size_t{1}, std::size_t{100}, kPageBytes - 1}) {
    fill(source.bytes(), 7);
    fill(destination.bytes(), 1);
    const std::size_t length = kBlock - skipped - 200;
    const auto target = destination.bytes().subspan(skipped, length);
    const std::size_t copied = kAlways.hand_off(source.bytes().subspan(skipped, length), target);
    BOOST_TEST(copied == kPageBytes - skipped + kPageBytes - 200);
    BOOST_TEST(all(target, 7));
    BOOST_TEST(all(destination.bytes().first(skipped), 1));
    BOOST_TEST(all({end_of(target), end_of(destination.bytes())}, 1));
  }
}

BOOST_AUTO_TEST_CASE(ranges_out_of_step_and_ranges_within_a_page_are_copied) {
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  fill(source.bytes(), 7);
  BOOST_TEST(kAlways.hand_off(source.bytes().subspan(1), destination.bytes().first(kBlock - 1)) ==
             kBlock - 1);
  BOOST_TEST(kAlways.hand_off(source.bytes().subspan(10, 100), destination.bytes().subspan(10, 100)) == 100u);
  BOOST_TEST(kAlways.hand_off({}, {}) == 0u);
  BOOST_TEST(all(destination.bytes().first(kBlock - 1), 7));
}

// The part of whole tables is smaller than the part of whole pages. It counts with the break-even of tables.
BOOST_AUTO_TEST_CASE(whole_tables_are_exchanged_from_their_own_break_even_on) {
  const std::size_t size = 3 * kHugePageBytes;
  const PageExchange of_tables({.of_pages = SIZE_MAX, .of_tables = 2 * kHugePageBytes});
  auto source = *Arena::make(size), destination = *Arena::make(size);
  fill(source.bytes(), 7);
  BOOST_TEST(of_tables.hand_off(source.bytes(), destination.bytes()) == 0u);
  BOOST_TEST(all(destination.bytes(), 7));
  fill(source.bytes(), 8);
  const auto from_second_page = [](Arena& arena) { return arena.bytes().subspan(kPageBytes); };
  BOOST_TEST(of_tables.hand_off(from_second_page(source), from_second_page(destination)) ==
             kHugePageBytes - kPageBytes);
  BOOST_TEST(all(from_second_page(destination), 8));
  const auto short_of_two = [](Arena& arena) { return arena.bytes().first(2 * kHugePageBytes - 1); };
  BOOST_TEST(of_tables.hand_off(short_of_two(source), short_of_two(destination)) == 2 * kHugePageBytes - 1);
}

BOOST_AUTO_TEST_CASE(the_measured_break_even_is_of_whole_units_or_there_is_none) {
  const auto [of_pages, of_tables] = PageExchange::of_process().break_even();
  BOOST_TEST((of_pages == SIZE_MAX || (of_pages % kPageBytes == 0 && of_pages > 0)));
  BOOST_TEST((of_tables == SIZE_MAX || (of_tables % kHugePageBytes == 0 && of_tables > 0)));
}

BOOST_AUTO_TEST_CASE(an_exchange_leaves_no_mapping_behind) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  auto a = *Arena::make(kBlock), b = *Arena::make(kBlock);
  BOOST_REQUIRE(PageExchange::exchange(a.bytes(), b.bytes()));
  const auto before = mappings();
  for (int i = 0; i < 100; ++i) BOOST_REQUIRE(PageExchange::exchange(a.bytes(), b.bytes()));
  BOOST_TEST(mappings() <= before + 1);
}

// All ranges are of one mapping, so the exchanged pages lie between pages that were not exchanged.
BOOST_AUTO_TEST_CASE(exchanges_of_any_pages_give_what_copies_of_them_give) {
  rc::check([] {
    constexpr std::size_t kPages = 40;
    auto memory = *Arena::make(kPages * kPageBytes);
    std::vector<std::byte> model(memory.bytes().size());
    for (std::size_t page = 0; page < kPages; ++page)
      fill(memory.bytes().subspan(page * kPageBytes, kPageBytes), static_cast<int>(page));
    std::ranges::copy(memory.bytes(), model.begin());
    for (int i = 0; i < 20; ++i) {
      const auto pages = *rc::gen::inRange<std::size_t>(1, 10);
      const auto a = *rc::gen::inRange<std::size_t>(0, kPages - 2 * pages + 1);
      const auto b = *rc::gen::inRange<std::size_t>(a + pages, kPages - pages + 1);
      const auto at = [&](std::size_t page) {
        return memory.bytes().subspan(page * kPageBytes, pages * kPageBytes);
      };
      RC_ASSERT(PageExchange::exchange(at(a), at(b)).has_value());
      const auto of = [&](std::size_t page) {
        return model.begin() + static_cast<std::ptrdiff_t>(page * kPageBytes);
      };
      std::swap_ranges(of(a), of(a + pages), of(b));
      RC_ASSERT(std::ranges::equal(memory.bytes(), model));
    }
  });
}

BOOST_AUTO_TEST_CASE(misaligned_overlapping_and_unequal_ranges_are_refused_and_untouched) {
  auto a = *Arena::make(2 * kBlock), b = *Arena::make(kBlock);
  fill(a.bytes(), 1);
  fill(b.bytes(), 2);
  BOOST_TEST(!PageExchange::exchange(a.bytes().subspan(1, kPageBytes), b.bytes().first(kPageBytes)));
  BOOST_TEST(!PageExchange::exchange(a.bytes().first(kPageBytes), b.bytes().first(2 * kPageBytes)));
  BOOST_TEST(!PageExchange::exchange(a.bytes().first(kBlock), a.bytes().subspan(kPageBytes, kBlock)));
  BOOST_TEST(!PageExchange::exchange(a.bytes(), b.bytes()));
  BOOST_TEST(all(a.bytes(), 1));
  BOOST_TEST(all(b.bytes(), 2));
}

BOOST_AUTO_TEST_CASE(a_range_of_several_mappings_gets_the_bytes_whether_or_not_the_kernel_moves_it) {
  auto source = *Arena::make(kBlock);
  fill(source.bytes(), 3);
  void* const where = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(where != MAP_FAILED);
  BOOST_REQUIRE(madvise(where, kBlock / 2, MADV_DONTFORK) == 0);  // This splits the mapping in two.
  const std::span<std::byte> destination(static_cast<std::byte*>(where), kBlock);
  const std::size_t copied = kAlways.hand_off(source.bytes(), destination);
  BOOST_TEST((copied == 0 || copied == kBlock));
  BOOST_TEST(all(destination, 3));
  munmap(where, kBlock);
}

BOOST_AUTO_TEST_CASE(memory_that_others_share_is_copied_into_and_stays_shared) {
  const int file = memfd_create("shared", 0);
  BOOST_REQUIRE(file >= 0);
  BOOST_REQUIRE(ftruncate(file, kBlock) == 0);
  for (const int kind : {MAP_SHARED, MAP_PRIVATE}) {
    auto source = *Arena::make(kBlock);
    fill(source.bytes(), 7);
    const auto map = [&](int flags) {
      return std::span(static_cast<std::byte*>(mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, flags, file, 0)),
                       kBlock);
    };
    const auto ours = map(kind), theirs = map(MAP_SHARED);
    fill(theirs, 1);
    BOOST_TEST(kAlways.hand_off(source.bytes(), ours) == kBlock);
    BOOST_TEST(all(ours, 7));
    BOOST_TEST(all(theirs, kind == MAP_SHARED ? 7 : 1));
    munmap(ours.data(), kBlock);
    munmap(theirs.data(), kBlock);
  }
  close(file);
}

BOOST_AUTO_TEST_CASE(an_arena_larger_than_the_address_space_is_refused) {
  BOOST_TEST(!Arena::make(SIZE_MAX).has_value());
  BOOST_TEST(!Arena::make(SIZE_MAX - kPageBytes).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
