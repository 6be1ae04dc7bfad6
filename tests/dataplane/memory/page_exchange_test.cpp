#include "dataplane/memory/page_exchange.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

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
PageExchange make_exchange() {
  auto exchange = PageExchange::make(kBlock);
  BOOST_REQUIRE_MESSAGE(exchange, exchange.error().what);
  return std::move(*exchange);
}
}  // namespace

BOOST_AUTO_TEST_CASE(the_pages_of_two_ranges_change_places) {
  auto exchange = make_exchange();
  auto a = *Arena::make(3 * kBlock), b = *Arena::make(kBlock);
  fill(a.bytes(), 1);
  fill(b.bytes(), 2);
  BOOST_REQUIRE(exchange.exchange(a.bytes().subspan(kBlock, kBlock), b.bytes()));
  BOOST_TEST(all(a.bytes().subspan(0, kBlock), 1));
  BOOST_TEST(all(a.bytes().subspan(kBlock, kBlock), 2));
  BOOST_TEST(all(a.bytes().subspan(2 * kBlock), 1));
  BOOST_TEST(all(b.bytes(), 1));
}

BOOST_AUTO_TEST_CASE(a_range_can_be_exchanged_over_and_over) {
  auto exchange = make_exchange();
  auto a = *Arena::make(kBlock), b = *Arena::make(kBlock);
  fill(a.bytes(), 1);
  fill(b.bytes(), 2);
  for (int i = 0; i < 101; ++i) BOOST_REQUIRE(exchange.exchange(a.bytes(), b.bytes()));
  BOOST_TEST(all(a.bytes(), 2));
  BOOST_TEST(all(b.bytes(), 1));
}

BOOST_AUTO_TEST_CASE(a_hand_off_that_gains_copies_only_the_tail) {
  auto exchange = make_exchange();
  exchange.set_break_even_bytes(kPageBytes);
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  const std::size_t length = kBlock - 100;
  fill(source.bytes(), 7);
  const std::size_t copied =
      exchange.hand_off(source.bytes().first(length), destination.bytes().first(length));
  BOOST_TEST(copied == kPageBytes - 100);
  BOOST_TEST(all(destination.bytes().first(length), 7));
}

BOOST_AUTO_TEST_CASE(a_whole_page_hand_off_copies_nothing) {
  auto exchange = make_exchange();
  exchange.set_break_even_bytes(kPageBytes);
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  fill(source.bytes(), 9);
  BOOST_TEST(exchange.hand_off(source.bytes(), destination.bytes()) == 0u);
  BOOST_TEST(all(destination.bytes(), 9));
}

BOOST_AUTO_TEST_CASE(below_the_break_even_everything_is_copied) {
  auto exchange = make_exchange();
  exchange.set_break_even_bytes(2 * kBlock);
  auto source = *Arena::make(kBlock), destination = *Arena::make(kBlock);
  fill(source.bytes(), 5);
  BOOST_TEST(exchange.hand_off(source.bytes(), destination.bytes()) == kBlock);
  BOOST_TEST(all(destination.bytes(), 5));
  BOOST_TEST(all(source.bytes(), 5));
}

BOOST_AUTO_TEST_CASE(the_measured_break_even_lies_between_a_page_and_what_copying_could_ever_cost) {
  BOOST_TEST(make_exchange().break_even_bytes() >= kPageBytes);
  BOOST_TEST(make_exchange().break_even_bytes() < std::size_t{1} << 30);
}

BOOST_AUTO_TEST_CASE(misaligned_overlapping_and_unequal_ranges_are_refused_and_untouched) {
  auto exchange = make_exchange();
  auto a = *Arena::make(2 * kBlock), b = *Arena::make(kBlock);
  fill(a.bytes(), 1);
  fill(b.bytes(), 2);
  BOOST_TEST(!exchange.exchange(a.bytes().subspan(1, kPageBytes), b.bytes().first(kPageBytes)));
  BOOST_TEST(!exchange.exchange(a.bytes().first(kPageBytes), b.bytes().first(2 * kPageBytes)));
  BOOST_TEST(!exchange.exchange(a.bytes().first(kBlock), a.bytes().subspan(kPageBytes, kBlock)));
  BOOST_TEST(!exchange.exchange(a.bytes(), b.bytes()));
  BOOST_TEST(all(a.bytes(), 1));
  BOOST_TEST(all(b.bytes(), 2));
}

BOOST_AUTO_TEST_CASE(a_range_of_several_mappings_gets_the_bytes_whether_or_not_the_kernel_moves_it) {
  auto exchange = make_exchange();
  exchange.set_break_even_bytes(kPageBytes);
  auto source = *Arena::make(kBlock);
  fill(source.bytes(), 3);
  void* const where = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOOST_REQUIRE(where != MAP_FAILED);
  BOOST_REQUIRE(madvise(where, kBlock / 2, MADV_DONTFORK) == 0);  // This splits the mapping in two.
  const std::span<std::byte> destination(static_cast<std::byte*>(where), kBlock);
  const std::size_t copied = exchange.hand_off(source.bytes(), destination);
  BOOST_TEST((copied == 0 || copied == kBlock));
  BOOST_TEST(all(destination, 3));
  munmap(where, kBlock);
}

BOOST_AUTO_TEST_CASE(memory_that_others_share_is_copied_into_and_stays_shared) {
  auto exchange = make_exchange();
  exchange.set_break_even_bytes(kPageBytes);
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
    BOOST_TEST(exchange.hand_off(source.bytes(), ours) == kBlock);
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
