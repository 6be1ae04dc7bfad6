// Tests the verbs provider on a real device: which memory it registers, how often, and for how long.
#include <sys/mman.h>

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/fabric/verbs/verbs_pair.hpp"

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::fabric::testing;

BOOST_AUTO_TEST_CASE(a_region_that_ends_takes_nothing_from_works_in_the_same_memory) {
  Pair pair;
  const auto source = random_bytes(4 << 20);
  auto memory = source;
  std::vector<std::byte> target(memory.size());
  const auto region = pair[1].fabric->register_memory(target).value();
  auto first = pair[0].fabric->register_memory(memory, MemoryUse::general, kAll).value();
  const auto second = pair[0].fabric->register_memory(memory, MemoryUse::general, kAll).value();
  // Each registration has its own remote address. So a revoked key cannot be used with its old address.
  BOOST_TEST(first->remote_address() != second->remote_address());
  BOOST_REQUIRE(pair[0].queue_pair->post_write(
      {.bytes = memory, .remote_address = region->remote_address(), .remote_key = region->remote_key()}));
  first.reset();
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  BOOST_TEST((pair[0].done[0].status == WorkStatus::success));
  BOOST_TEST((target == source));
}

BOOST_AUTO_TEST_CASE(what_is_registered_costs_no_registration_for_each_work) {
  Pair pair({.receive_depth = 64, .largest_receive = 0});
  auto memory = random_bytes(64 * 1024);
  std::vector<std::byte> rooms(64 * 1024);
  const auto sending =
      pair[0].fabric->register_memory(memory, MemoryUse::general, RemoteAccess::none).value();
  const auto receiving =
      pair[1].fabric->register_memory(rooms, MemoryUse::general, RemoteAccess::none).value();
  for (std::size_t i = 0; i < 64; ++i) {
    BOOST_REQUIRE(
        pair[1].queue_pair->post_receive({.work_id = i, .bytes = std::span(rooms).subspan(i * 1024, 1024)}));
    BOOST_REQUIRE(
        pair[0].queue_pair->post_send({.work_id = i, .bytes = std::span(memory).subspan(i * 1024, 1024)}));
  }
  BOOST_REQUIRE(pair.run_until_done(1, 64));
  BOOST_TEST((rooms == memory));
  BOOST_TEST(pair[0].fabric->counters().registrations == 1u);
  BOOST_TEST(pair[1].fabric->counters().registrations == 1u);
}

BOOST_AUTO_TEST_CASE(memory_that_works_named_stays_registered_until_something_else_is_mapped_there) {
  Pair pair;
  constexpr std::size_t kBytes = 64 * 1024;
  std::vector<std::byte> target(kBytes);
  const auto region = pair[1].fabric->register_memory(target).value();
  const auto write = [&](std::span<const std::byte> bytes) {
    pair[0].done.clear();
    BOOST_REQUIRE(pair[0].queue_pair->post_write(
        {.bytes = bytes, .remote_address = region->remote_address(), .remote_key = region->remote_key()}));
    BOOST_REQUIRE(pair.run_until_done(0, 1));
    BOOST_TEST((pair[0].done[0].status == WorkStatus::success));
    BOOST_TEST((std::ranges::equal(bytes, target)));
  };
  void* where = nullptr;
  // The address stays the same, but its pages change.
  for (std::uint64_t round = 0; round < 20; ++round) {
    void* const start = mmap(where, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | (where == nullptr ? 0 : MAP_FIXED), -1, 0);
    BOOST_REQUIRE(start != MAP_FAILED);
    where = start;
    const std::span memory(static_cast<std::byte*>(start), kBytes);
    for (int again = 0; again < 3; ++again) {
      std::ranges::copy(random_bytes(kBytes, round * 3 + static_cast<std::uint64_t>(again)), memory.begin());
      write(memory);
    }
    if (round % 2 == 0) munmap(start, kBytes);
  }
  munmap(where, kBytes);
  BOOST_TEST(pair[0].fabric->counters().registrations == 20u);
}

BOOST_AUTO_TEST_CASE(a_device_ties_no_key_to_a_queue_pair_and_says_so) {
  Pair pair;
  std::vector<std::byte> memory(4096);
  const auto made = pair[0].queue_pair->register_memory(memory, RemoteAccess::write);
  BOOST_REQUIRE(!made);
  BOOST_TEST((made.error().code == Errc::unsupported));
  BOOST_TEST(!made.error().what.empty());
}
