// Tests the close of a group's root, which is like the close of a stream. The close returns at once, and the
// sent messages still arrive within the time of StackOptions::farewell. With SO_LINGER, the close waits, or
// the root is closed without waiting for anything.
#include <fcntl.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

constexpr Duration kFarewell = seconds(600);
constexpr std::size_t kMessageBytes = 1 << 20;

/// A root and a member. Each has its own stack, as in two processes.
struct Group {
  explicit Group(const char* fabric)
      : root(std::in_place, StackOptions{.fabric = fabric, .insecure = true, .farewell = kFarewell}),
        member({.fabric = fabric, .insecure = true}),
        sends(group_socket(*root)),
        reads(group_socket(member)) {
    join(member, reads, found_group(*root, sends));
  }
  void linger_for(int seconds) {
    const linger how{.l_onoff = 1, .l_linger = seconds};
    BOOST_REQUIRE(root->set_option(sends, SOL_SOCKET, SO_LINGER, &how, sizeof how));
  }
  /// Sends messages, which the member does not read, until the member has no space and the last messages wait
  /// at the root. Returns the number of messages. If one second is not enough to fill the member, the tests
  /// check less, but pass.
  int fill() {
    const std::vector<std::byte> message(kMessageBytes);
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    BOOST_REQUIRE(root->set_option(sends, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience));
    int count = 0;
    while (root->send(sends, message, 0)) ++count;
    BOOST_REQUIRE(root->control(sends, F_SETFL, O_NONBLOCK));
    return count;
  }
  /// Reads until the group ends in order. Returns the number of messages that were read.
  int read_all() {
    std::vector<std::byte> room(kMessageBytes);
    for (int count = 0;; ++count) {
      const auto got = member.receive(reads, room, 0);
      BOOST_REQUIRE(got.has_value());
      if (*got == 0) return count;
    }
  }

  std::optional<Stack> root;
  Stack member;
  int sends, reads;
};

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});

/// The time limit of a failing test. A wait that is an error would take longer.
constexpr std::chrono::seconds kPatience(60);
template <typename Task>
auto start(Task task) {
  return std::async(std::launch::async, std::move(task));
}

bool is_ready(const auto& future) {
  return future.wait_for(kPatience) == std::future_status::ready;
}

}  // namespace

BOOST_DATA_TEST_CASE(a_close_returns_at_once_and_members_get_what_was_sent, kFabrics, fabric) {
  Group group(fabric);
  const int sent = group.fill();
  auto closes = start([&] { return group.root->close(group.sends); });
  // This is checked before any message is read.
  const bool has_returned = is_ready(closes);
  BOOST_TEST(has_returned);
  BOOST_TEST(group.read_all() == sent);
  BOOST_TEST(closes.get().has_value());
}

BOOST_DATA_TEST_CASE(a_process_that_ends_waits_until_members_have_what_was_sent, kFabrics, fabric) {
  Group group(fabric);
  const int sent = group.fill();
  BOOST_REQUIRE(group.root->close(group.sends));
  auto ends = start([&] { group.root.reset(); });
  BOOST_TEST(group.read_all() == sent);
  BOOST_TEST(is_ready(ends));
}

BOOST_DATA_TEST_CASE(a_process_that_ends_closes_its_roots_as_their_linger_says, kFabrics, fabric) {
  Group group(fabric);
  group.linger_for(600);
  const int sent = group.fill();
  auto ends = start([&] { group.root.reset(); });
  BOOST_TEST(group.read_all() == sent);
  BOOST_TEST(is_ready(ends));
}

BOOST_DATA_TEST_CASE(without_linger_a_process_that_ends_waits_for_nobody, kFabrics, fabric) {
  Group group(fabric);
  group.linger_for(0);
  group.fill();
  BOOST_REQUIRE(group.root->close(group.sends));
  auto ends = start([&] { group.root.reset(); });
  BOOST_TEST(is_ready(ends));
}

BOOST_DATA_TEST_CASE(a_close_that_lingers_waits_until_members_have_what_was_sent, kFabrics, fabric) {
  Group group(fabric);
  group.linger_for(600);
  const int sent = group.fill();
  auto closes = start([&] { return group.root->close(group.sends); });
  // When the close has started, the socket is not found any more.
  while (group.root->has(group.sends)) std::this_thread::yield();
  BOOST_TEST((closes.wait_for(std::chrono::seconds(0)) == std::future_status::timeout));
  BOOST_TEST(group.read_all() == sent);
  BOOST_TEST(is_ready(closes));
}

BOOST_AUTO_TEST_CASE(a_member_that_dies_is_not_waited_for) {
  Group group("udp");
  group.fill();
  BOOST_REQUIRE(group.root->close(group.sends));
  group.member.end();
  auto ends = start([&] { group.root.reset(); });
  BOOST_TEST(is_ready(ends));
}
