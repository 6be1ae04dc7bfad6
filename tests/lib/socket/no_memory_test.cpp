// Tests calls for which the process has no memory. A call that fails throws std::bad_alloc, which the C
// functions report as ENOMEM, and must have sent no bytes. If a call has sent some bytes, it must return
// their number. The most important rule is that no peer may still read bytes that belong to the caller again.
// Each test lets a certain number of a thread's allocations succeed, and all later ones fail.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <optional>

#include "lib/include/rdmc/socket.h"
#include "tests/failing_memory.hpp"
#include "tests/lib/socket/two_stacks.hpp"
#include "tests/lib/socket/wire.hpp"

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;
using rdmc::testing::end_failures;
using rdmc::testing::fail_allocations;

namespace {

/// Makes `call`, in which the first `count` allocations succeed. Returns its result, or nullopt if it has
/// thrown.
std::optional<Answer> with_allocations(long count, const std::function<Answer()>& call) {
  std::optional<Answer> answer;
  fail_allocations(count);
  try {
    answer = call();
  } catch (const std::bad_alloc&) {
  }
  end_failures();
  return answer;
}

/// No call in this test makes this many allocations.
constexpr long kMostAllocations = 40;

/// This process's own memory in the role of a peer's memory.
struct OwnMemory final : fabric::PeerMemory {
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override {
    std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    return to.size();
  }
  bool is_present(std::uint64_t, std::size_t) const override { return true; }
};

/// A connection that was accepted.
struct OpenWire : ConnectedWire {
  OpenWire() : reader(listener.accept()->stream) {
    BOOST_REQUIRE((connected.connect() == Socket::Connecting::succeeded));
    settle();
  }
  /// Reads all bytes that have arrived. Returns their number.
  std::size_t received() {
    settle();
    std::size_t all = 0;
    std::vector<std::byte> room(1 << 20);
    while (const auto got = reader.receive(room, false).value_or(0)) {
      all += got;
      settle();
    }
    return all;
  }
  Socket reader;
};

}  // namespace

/// There are many rounds, because a queue that has to grow would lack memory only in some of them, after the
/// bytes were accepted.
BOOST_AUTO_TEST_CASE(a_send_without_memory_has_sent_nothing) {
  for (const std::size_t bytes : {10, 100'000}) {
    OpenWire wire;
    const std::vector<std::byte> message(bytes);
    for (int round = 0; round < 300; ++round) {
      for (long allocations = 0; allocations < kMostAllocations; ++allocations) {
        const auto sent = with_allocations(allocations, [&] { return wire.connected.send(message); });
        BOOST_REQUIRE(wire.received() == (sent ? sent->value() : 0));
        if (sent) break;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_advert_is_there_only_if_its_call_knows_of_it) {
  OpenWire wire;
  wire.share_lanes(std::make_shared<OwnMemory>());
  const std::vector<std::byte> little(Stream::kBytesBeforeLane), much(4 * LanePool::kRingBytes);
  for (int i = 0; i < 2; ++i) {
    BOOST_REQUIRE(wire.connected.send(little));
    BOOST_REQUIRE(wire.received() == little.size());
  }
  BOOST_REQUIRE(wire.connected.stream()->outgoing() != nullptr);
  const auto& stream = *wire.connected.stream();
  for (int round = 0; round < 300; ++round) {
    wire.reader.stream()->want_records();  // after this, the send also needs a record
    const auto sent = with_allocations(0, [&] { return wire.connected.send(much, &wire); });
    BOOST_TEST(stream.outgoing()->writer.is_advertising() == sent.has_value());
    BOOST_REQUIRE(wire.connected.stream()->take_back(&wire) == (sent ? std::optional(0U) : std::nullopt));
    wire.settle();
    BOOST_REQUIRE(wire.received() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_message_is_sent_whole_or_not_at_all) {
  ConnectionKind kind = ConnectionKind::messages;
  Wire wire;
  Socket listener(kind), sender(kind);
  listener.listen(1);
  wire.server.listener = &listener;
  wire.client.connect(sender);
  wire.settle();
  Socket reader(listener.accept()->stream);
  BOOST_REQUIRE((sender.connect() == Socket::Connecting::succeeded));
  const std::vector<std::byte> message(50'000);
  std::vector<std::byte> room(message.size());
  for (long allocations = 0; allocations < kMostAllocations; ++allocations) {
    const auto sent = with_allocations(allocations, [&] { return sender.send(message); });
    wire.settle();
    const auto got = reader.receive(room, false);
    BOOST_TEST((got == (sent ? Answer(message.size()) : Answer(std::unexpected(EAGAIN)))));
  }
}

BOOST_AUTO_TEST_CASE(a_send_that_waits_without_memory_takes_back_what_it_lends) {
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  for (int i = 0; i < 8; ++i) {
    BOOST_REQUIRE(two.client.send(ours, bytes_of("word"), 0));
    BOOST_REQUIRE(receive_all(two.server, theirs, 4) == "word");
  }
  std::string much(4 << 20, 'a');
  std::size_t gone = 0;
  for (long allocations = 0; allocations < kMostAllocations; ++allocations) {
    const timeval soon{.tv_sec = 0, .tv_usec = 1000};
    BOOST_REQUIRE(two.client.set_option(ours, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon));
    const auto sent =
        with_allocations(allocations, [&, fd = ours] { return two.client.send(fd, bytes_of(much), 0); });
    gone += sent ? sent->value_or(0) : 0;
    std::ranges::fill(much, 'x');
    std::ranges::fill(much, 'a');
  }
  std::ranges::fill(much, 'x');
  BOOST_REQUIRE(two.client.close(ours));
  const std::string got = receive_all(two.server, theirs);
  BOOST_TEST(got.size() == gone);
  BOOST_TEST(got.find('x') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_groups_message_without_memory_is_not_sent_and_the_next_one_is) {
  TwoStacks two("udp");
  const auto group_socket = [](Stack& stack) {
    const int fd = TwoStacks::new_socket(stack, 0, RDMC_GROUP);
    BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
    return fd;
  };
  const int root = group_socket(two.server), member = group_socket(two.client);
  two.listen(root);
  BOOST_REQUIRE(two.connect(member));
  for (long allocations = 0; allocations < kMostAllocations; ++allocations) {
    const std::string message = std::to_string(allocations);
    const auto sent =
        with_allocations(allocations, [&] { return two.server.send(root, bytes_of(message), 0); });
    if (sent) BOOST_TEST(receive_all(two.client, member, message.size()) == message);
  }
}

/// If both sockets belong to one process, the same call also needs the memory of the other end.
BOOST_AUTO_TEST_CASE(a_process_without_memory_for_its_own_connections_loses_them_and_may_make_others) {
  TwoStacks two("udp");
  const auto own_pair = [&] {
    const int fd = TwoStacks::new_socket(two.server);
    BOOST_REQUIRE(
        two.server.connect(fd, reinterpret_cast<const sockaddr*>(&two.address), sizeof two.address));
    return std::pair(fd, static_cast<int>(two.server.accept(two.listener, nullptr, nullptr, 0).value()));
  };
  for (long allocations = 0; allocations < kMostAllocations; ++allocations) {
    const auto [ours, theirs] = own_pair();
    const auto sent =
        with_allocations(allocations, [&, fd = ours] { return two.server.send(fd, bytes_of("word"), 0); });
    std::vector<std::byte> room(10);
    const auto got = two.server.receive(theirs, room, MSG_DONTWAIT);
    const bool is_lost = got == Answer(std::unexpected(ENOBUFS));
    BOOST_TEST((is_lost || got == (sent ? Answer(4) : Answer(std::unexpected(EAGAIN)))));
    BOOST_REQUIRE((two.server.close(ours) && two.server.close(theirs)));
  }
}
