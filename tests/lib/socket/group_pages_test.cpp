// Tests that members of a group get long messages by their pages if they permit it (MSG_ZEROCOPY),
// and that this changes no byte for anybody.
#include <algorithm>
#include <array>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <deque>
#include <future>
#include <vector>

#include "dataplane/memory/arena.hpp"
#include "dataplane/memory/page_hand_off.hpp"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(group_pages_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});
constexpr std::size_t kMessageBytes = (4 << 20) + 12'345;

/// Fills `bytes` with the content of message `number`.
void fill(std::span<std::byte> bytes, int number) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i / 4096 + i + static_cast<std::size_t>(number) * 7);
}

struct Group {
  Group(const char* fabric, std::size_t count)
      : root({.fabric = fabric, .insecure = true}), sends(group_socket(root)) {
    const auto address = found_group(root, sends);
    for (std::size_t i = 0; i < count; ++i) {
      members.emplace_back(
          StackOptions{.fabric = fabric, .insecure = true, .least_hand_off = memory::kHugePageBytes});
      reads.push_back(group_socket(members.back()));
      join(members.back(), reads.back(), address);
    }
  }
  /// Receives at this member with these flags. Returns true if the result was message `number`, or as many of
  /// its first bytes as `into` has space for. Any thread may call this.
  bool receives(std::size_t member, std::span<std::byte> into, int number, int flags) {
    std::vector<std::byte> expected(kMessageBytes);
    fill(expected, number);
    const auto got = members[member].receive(reads[member], into, flags);
    return got && *got == std::min(into.size(), kMessageBytes) &&
           std::ranges::equal(into.first(*got), std::span(expected).first(*got));
  }
  std::uint64_t copied_at(std::size_t member) {
    std::uint64_t copied = 0;
    socklen_t length = sizeof copied;
    BOOST_REQUIRE(
        members[member].get_option(reads[member], RDMC_SOL_SOCKET, RDMC_SO_COPIED, &copied, &length));
    return copied;
  }

  Stack root;
  int sends;
  std::deque<Stack> members;
  std::vector<int> reads;
};

}  // namespace

// The other members pass bytes on while the application receives them. A member that gave away pages too
// early would pass on wrong bytes.
BOOST_DATA_TEST_CASE(all_members_get_the_right_bytes, kFabrics, fabric) {
  constexpr int kMessages = 12;
  constexpr std::size_t kMembers = 4;
  Group group(fabric, kMembers);
  auto sending = std::async(std::launch::async, [&] {
    std::vector<std::byte> message(kMessageBytes);
    for (int i = 0; i < kMessages; ++i) {
      fill(message, i);
      if (!group.root.send(group.sends, message, 0)) return false;
    }
    return true;
  });
  std::vector<std::future<bool>> receiving;
  for (std::size_t member = 0; member < kMembers; ++member) {
    receiving.push_back(std::async(std::launch::async, [&group, member] {
      const auto buffer = memory::Arena::make(kMessageBytes);
      for (int i = 0; i < kMessages; ++i)
        if (!group.receives(member, buffer->bytes().first(kMessageBytes), i, MSG_ZEROCOPY)) return false;
      return true;
    }));
  }
  for (auto& member : receiving) BOOST_TEST(member.get());
  BOOST_TEST(sending.get());
}

// Each try succeeds if the group releases the message in less time than a copy takes.
BOOST_DATA_TEST_CASE(a_member_gets_messages_without_a_copy, kFabrics, fabric) {
  Group group(fabric, 1);
  std::vector<std::byte> message(kMessageBytes);
  const auto buffer = memory::Arena::make(kMessageBytes);
  std::uint64_t copied = kMessageBytes;
  for (int i = 0; i < 300 && copied >= kMessageBytes; ++i) {
    fill(message, i);
    BOOST_REQUIRE(group.root.send(group.sends, message, 0));
    const std::uint64_t before = group.copied_at(0);
    BOOST_REQUIRE(group.receives(0, buffer->bytes().first(kMessageBytes), i, MSG_ZEROCOPY));
    copied = group.copied_at(0) - before;
  }
  BOOST_TEST(copied == kMessageBytes % memory::kHugePageBytes);
}

BOOST_DATA_TEST_CASE(a_peeked_message_stays_and_a_part_of_a_message_is_enough, kFabrics, fabric) {
  Group group(fabric, 1);
  std::vector<std::byte> message(kMessageBytes);
  const auto buffer = memory::Arena::make(kMessageBytes);
  const auto whole = buffer->bytes().first(kMessageBytes);
  const auto first_part = whole.first(kMessageBytes / 2 + 1);
  for (int i = 0; i < 4; ++i) {
    fill(message, i);
    BOOST_REQUIRE(group.root.send(group.sends, message, 0));
    const std::uint64_t before = group.copied_at(0);
    BOOST_TEST(group.receives(0, whole, i, MSG_ZEROCOPY | MSG_PEEK));
    BOOST_TEST(group.receives(0, first_part, i, MSG_ZEROCOPY | MSG_PEEK));
    BOOST_TEST(group.copied_at(0) - before == whole.size() + first_part.size());
    BOOST_TEST(group.receives(0, i % 2 == 0 ? whole : first_part, i, MSG_ZEROCOPY));
  }
}

BOOST_AUTO_TEST_CASE(streams_and_records_refuse_the_flag) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    TwoStacks stacks("udp", type);
    const int theirs = stacks.pair().second;
    std::array<std::byte, 16> bytes{};
    const auto got = stacks.server.receive(theirs, bytes, MSG_ZEROCOPY);
    BOOST_REQUIRE(!got.has_value());
    BOOST_TEST(got.error() == EOPNOTSUPP);
  }
}

BOOST_AUTO_TEST_SUITE_END()
