// Tests that a close ends every call that waits for the socket in another thread. Each of these calls must
// return EBADF. A test closes the socket only when the kernel reports that the other thread sleeps in its
// call. So no test depends on which thread is faster.
#include <poll.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <future>
#include <thread>

#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"
#include "tests/lib/socket/waiting.hpp"

BOOST_AUTO_TEST_SUITE(closing_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});
const Answer kClosed = std::unexpected(EBADF);

/// If the peer does not read, the buffers of both sides have space for fewer bytes than these.
const std::vector<std::byte> kMuch(32 << 20);

Answer receive_byte(Stack& stack, int fd) {
  std::byte byte;
  return stack.receive(fd, {&byte, 1}, 0);
}

/// Fills the buffers. Returns the result of the first send that fails. The last sends have one byte each. A
/// longer send could send only a part of its bytes when the socket is closed. The next send would then use a
/// descriptor number that may already belong to another file.
Answer send_until_it_fails(Stack& stack, int fd) {
  while (stack.send(fd, std::span(kMuch).first(100'000), MSG_DONTWAIT)) continue;
  for (;;)
    if (const auto sent = stack.send(fd, std::span(kMuch).first(1), 0); !sent) return sent;
}

/// Sends several times. After this, a connection over shared memory uses a lane.
void warm(TwoStacks& two, int ours, int theirs) {
  for (int i = 0; i < 8; ++i) {
    BOOST_REQUIRE(two.client.send(ours, bytes_of("word"), 0));
    BOOST_REQUIRE(receive_all(two.server, theirs, 4).size() == 4);
  }
}

int group_socket(Stack& stack) {
  const int fd = TwoStacks::new_socket(stack, 0, RDMC_GROUP);
  BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
  return fd;
}

/// A listener that accepts connections and never sends anything.
struct Silent {
  Silent() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    socklen_t length = sizeof at;
    BOOST_REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    BOOST_REQUIRE(::listen(socket.get(), 8) == 0);
    BOOST_REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0);
  }
  Descriptor socket;
  sockaddr_in at = loopback();
};

}  // namespace

BOOST_DATA_TEST_CASE(a_close_ends_a_receive_of_every_kind, kFabrics, fabric) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    TwoStacks two(fabric, type);
    for (const bool is_warm : {false, true}) {
      const auto [ours, theirs] = two.pair();
      if (is_warm) warm(two, ours, theirs);
      Waiting waits([&, at = theirs] { return receive_byte(two.server, at); });
      BOOST_REQUIRE(two.server.close(theirs));
      BOOST_TEST((waits.answer() == kClosed));
    }
    const auto [ours, theirs] = two.pair();
    Waiting pieces([&, at = theirs] {
      std::array<std::byte, 2> bytes;
      std::array<iovec, 2> parts{
          {{.iov_base = &bytes[0], .iov_len = 1}, {.iov_base = &bytes[1], .iov_len = 1}}};
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      return two.server.receive_message(at, message, 0);
    });
    BOOST_REQUIRE(two.server.close(theirs));
    BOOST_TEST((pieces.answer() == kClosed));
  }
}

BOOST_DATA_TEST_CASE(a_close_ends_a_send_that_has_sent_nothing_without_a_signal, kFabrics, fabric) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    TwoStacks two(fabric, type);
    const auto [ours, theirs] = two.pair();
    // The close must not make this send raise SIGPIPE, which would end the test.
    Waiting waits([&, at = ours] { return send_until_it_fails(two.client, at); });
    BOOST_REQUIRE(two.client.close(ours));
    BOOST_TEST((waits.answer() == kClosed));
  }
}

BOOST_AUTO_TEST_CASE(a_close_ends_a_send_that_has_sent_some_with_what_it_has_sent) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  Waiting waits([&, at = ours] { return two.client.send(at, kMuch, 0); });
  BOOST_REQUIRE(two.client.close(ours));
  const auto sent = waits.answer();
  BOOST_REQUIRE(sent.has_value());
  BOOST_TEST((*sent > 0 && *sent < kMuch.size()));
}

BOOST_DATA_TEST_CASE(a_close_ends_calls_that_do_not_copy, kFabrics, fabric) {
  TwoStacks two(fabric);
  const auto memory = two.client.allocate(kMuch.size());
  BOOST_REQUIRE(memory);
  const std::span<const std::byte> piece(static_cast<std::byte*>(*memory), 1 << 20);
  {
    const auto [ours, theirs] = two.pair();
    Waiting waits([&, at = theirs] {
      void* bytes = nullptr;
      return two.server.receive_in_place(at, &bytes, 0);
    });
    BOOST_REQUIRE(two.server.close(theirs));
    BOOST_TEST((waits.answer() == kClosed));
  }
  const auto [ours, theirs] = two.pair();
  std::uint64_t number = 0;
  BOOST_REQUIRE(
      two.client.send_in_place(ours, std::span(static_cast<std::byte*>(*memory), kMuch.size()), 0, number));
  Waiting sent([&, at = ours] { return two.client.wait_sent(at, number, 0); });
  Waiting sends([&, at = ours] {
    std::uint64_t other = 0;
    for (;;)
      if (const auto given = two.client.send_in_place(at, piece, 0, other); !given) return given;
  });
  BOOST_REQUIRE(two.client.close(ours));
  BOOST_TEST((sends.answer() == kClosed));
  BOOST_TEST((sent.answer() == kClosed));
}

BOOST_AUTO_TEST_CASE(a_close_ends_accept_connect_and_poll) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  pollfd wanted{.fd = ours, .events = POLLIN, .revents = 0};
  Waiting polls([&] { return two.client.poll({&wanted, 1}, -1); });
  BOOST_REQUIRE(two.client.close(ours));
  BOOST_TEST((polls.answer() == Answer(1)));
  BOOST_TEST(wanted.revents == POLLNVAL);

  Waiting accepts([&] { return two.server.accept(two.listener, nullptr, nullptr, 0); });
  BOOST_REQUIRE(two.server.close(two.listener));
  BOOST_TEST((accepts.answer() == kClosed));

  const Silent silent;
  for (const int fd : {TwoStacks::new_socket(two.client), group_socket(two.client)}) {
    Waiting connects([&] {
      return two.client.connect(fd, reinterpret_cast<const sockaddr*>(&silent.at), sizeof silent.at);
    });
    BOOST_REQUIRE(two.client.close(fd));
    BOOST_TEST((connects.answer() == kClosed));
  }
}

BOOST_DATA_TEST_CASE(a_close_ends_calls_at_both_ends_of_a_group, kFabrics, fabric) {
  TwoStacks two(fabric);
  const int root = group_socket(two.server), member = group_socket(two.client);
  two.listen(root);
  BOOST_REQUIRE(two.connect(member));
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  BOOST_REQUIRE(two.server.set_option(root, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  Waiting sends([&] { return send_until_it_fails(two.server, root); });
  BOOST_REQUIRE(two.server.close(root));
  BOOST_TEST((sends.answer() == kClosed));

  const int lonely = group_socket(two.server);
  two.listen(lonely);
  const int reader = group_socket(two.client);
  BOOST_REQUIRE(two.connect(reader));
  Waiting receives([&] { return receive_byte(two.client, reader); });
  BOOST_REQUIRE(two.client.close(reader));
  BOOST_TEST((receives.answer() == kClosed));
}

BOOST_DATA_TEST_CASE(calls_do_not_wait_for_a_close_that_lingers, kFabrics, fabric) {
  TwoStacks two(fabric);
  const auto [ours, theirs] = two.pair();
  std::size_t all = 0;
  while (const auto sent = two.client.send(ours, std::span(kMuch).first(100'000), MSG_DONTWAIT)) all += *sent;
  const linger long_time{.l_onoff = 1, .l_linger = 600};
  BOOST_REQUIRE(two.client.set_option(ours, SOL_SOCKET, SO_LINGER, &long_time, sizeof long_time));
  Waiting receives([&, at = ours] { return receive_byte(two.client, at); });
  auto closes = std::async(std::launch::async, [&, at = ours] { return two.client.close(at); });
  BOOST_TEST((receives.answer() == kClosed));
  BOOST_TEST(receive_all(two.server, theirs).size() == all);
  BOOST_TEST(closes.get().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
