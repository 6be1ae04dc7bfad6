// Tests that the thread that watches a fabric's sockets allocates no memory while it runs.
#include <sys/socket.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <semaphore>

#include "dataplane/fabric/shm/socket_watch.hpp"
#include "tests/failing_memory.hpp"

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::testing;

BOOST_AUTO_TEST_CASE(every_socket_that_has_something_is_told_of_by_a_thread_without_memory) {
  constexpr std::size_t kSockets = 100;  // This is more than take() returns at a time.
  std::counting_semaphore<> told(0);
  const auto watch = shm::SocketWatch::open([&] {
                       fail_allocations(0);  // This runs on the thread that watches the sockets.
                       told.release();
                     }).value();
  std::array<std::array<Descriptor, 2>, kSockets> pairs;
  for (std::size_t i = 0; i < kSockets; ++i) {
    std::array<int, 2> ends{};
    BOOST_TEST_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    pairs[i] = {Descriptor(ends[0]), Descriptor(ends[1])};
    BOOST_TEST_REQUIRE(watch->watch(pairs[i][0], i).has_value());
  }
  for (int round = 0; round < 3; ++round) {
    for (const auto& pair : pairs) BOOST_TEST_REQUIRE(send(pair[1].get(), "x", 1, 0) == 1);
    std::array<bool, kSockets> seen{};
    while (!std::ranges::all_of(seen, std::identity{})) {
      BOOST_TEST_REQUIRE(told.try_acquire_for(std::chrono::seconds(30)));
      for (const std::uint64_t tag : watch->take()) {
        BOOST_TEST_REQUIRE(!std::exchange(seen[tag], true));
        char byte = 0;
        BOOST_TEST_REQUIRE(recv(pairs[tag][0].get(), &byte, 1, 0) == 1);
        BOOST_TEST_REQUIRE(watch->watch(pairs[tag][0], tag).has_value());
      }
    }
  }
}
