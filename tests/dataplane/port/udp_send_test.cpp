#include <poll.h>
#include <rapidcheck.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/port/socket_address.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"

BOOST_AUTO_TEST_SUITE(udp_send_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

BOOST_AUTO_TEST_CASE(trains_of_every_shape_arrive_cut_as_they_were_sent) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const bool held = rc::check([&] {
    const auto segment = *rc::gen::inRange<std::uint32_t>(1, 9000);
    const auto most = std::min({sender->info().train_segments, sender->info().train_bytes / segment});
    const auto segments = *rc::gen::inRange<std::uint32_t>(1, most + 1);
    const auto last = *rc::gen::inRange<std::uint32_t>(1, segment + 1);
    const Bytes sent = random_bytes(segment * (segments - 1) + last, segment);
    send(*sender, sent, segment, receiver->info().address);
    const auto got = receive_datagrams(*receiver, segments);
    RC_ASSERT(got.size() == segments);
    for (std::size_t i = 0; i < got.size(); ++i) {
      RC_ASSERT(got[i].bytes.size() == (i + 1 < segments ? segment : last));
      RC_ASSERT(std::equal(got[i].bytes.begin(), got[i].bytes.end(),
                           sent.begin() + static_cast<std::ptrdiff_t>(i * segment)));
    }
  });
  BOOST_TEST(held);
}

BOOST_AUTO_TEST_CASE(the_largest_train_that_the_port_announces_is_sent) {
  for (const bool ipv6 : {false, true}) {
    const auto sender = open({.address = loopback(1, ipv6)});
    const auto receiver = open({.address = loopback(2, ipv6)});
    const std::uint32_t bytes = sender->info().train_bytes;
    send(*sender, random_bytes(bytes, 1), (bytes + 6) / 7, receiver->info().address);
    BOOST_TEST(receive_datagrams(*receiver, 7).size() == 7);
    send(*sender, random_bytes(bytes, 2), bytes, receiver->info().address);
    BOOST_TEST(receive_datagrams(*receiver, 1)[0].bytes.size() == bytes);
    BOOST_TEST(sender->counters().send_failed == 0);
  }
}

BOOST_AUTO_TEST_CASE(bytes_are_gathered_from_many_pieces) {
  const auto sender = open(1);
  const auto receiver = open(2);
  Bytes sent = random_bytes(20 * 500, 1);
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < sent.size(); at += 250) pieces.push_back({sent.data() + at, 250});
  TxTrain train{.destination = receiver->info().address};
  train.pieces = pieces;
  train.segment_bytes = 500;
  train.total_bytes = static_cast<std::uint32_t>(sent.size());
  send(*sender, train);
  Bytes got;
  for (const Datagram& datagram : receive_datagrams(*receiver, 20)) {
    BOOST_TEST(datagram.bytes.size() == 500);
    got.insert(got.end(), datagram.bytes.begin(), datagram.bytes.end());
  }
  BOOST_TEST((got == sent));
}

BOOST_AUTO_TEST_CASE(a_burst_keeps_the_order_of_its_trains_whatever_their_source) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const FlowId other = *sender->open_flow();
  std::deque<Sendable> sendables;
  std::vector<TxTrain> trains;
  constexpr std::size_t kTrains = 100;  // One call does not accept all of them.
  for (std::size_t i = 0; i < kTrains; ++i) {
    const auto& made = sendables.emplace_back(Bytes(60, static_cast<std::byte>(i)), 20,
                                              receiver->info().address, i % 40 < 35 ? kSharedFlow : other);
    trains.push_back(made.train);
  }
  BOOST_TEST(sender->send_burst(trains) == kTrains);
  const auto got = receive_datagrams(*receiver, 3 * kTrains);
  BOOST_REQUIRE_EQUAL(got.size(), 3 * kTrains);
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_TEST(std::to_integer<std::size_t>(got[i].bytes[0]) == i / 3);
    BOOST_TEST(got[i].source.port == sender->udp_port(trains[i / 3].source));
  }
  BOOST_TEST(sender->counters().trains_sent == kTrains);
  BOOST_TEST(sender->counters().datagrams_sent == 3 * kTrains);
  BOOST_TEST(sender->counters().bytes_sent == 60 * kTrains);
}

BOOST_AUTO_TEST_CASE(
    a_datagram_too_large_for_the_path_is_dropped_and_counted_and_the_rest_of_the_burst_leaves) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Sendable good(Bytes(100), 100, receiver->info().address);
  const Sendable huge(Bytes(65'530), 65'530, receiver->info().address);
  const std::array trains{good.train, huge.train, good.train};
  BOOST_TEST(sender->send_burst(trains) == 3);
  BOOST_TEST(receive_datagrams(*receiver, 2).size() == 2);
  BOOST_TEST(sender->counters().send_failed == 1);
  BOOST_TEST(sender->counters().datagrams_sent == 2);
}

BOOST_AUTO_TEST_CASE(nobody_at_the_other_end_breaks_nothing) {
  const auto sender = open(1);
  const auto receiver = open(2);
  Address nobody = receiver->info().address;
  nobody.bytes[3] = 99;
  for (int i = 0; i < 20; ++i) send(*sender, Bytes(100), 100, nobody);
  send(*sender, Bytes(70), 70, receiver->info().address);
  BOOST_TEST(receive_datagrams(*receiver, 1)[0].bytes.size() == 70);
  NoPlan no_plan;
  std::array<RxTrain, 4> trains;
  BOOST_TEST(sender->receive_burst(no_plan, trains) == 0);
}

namespace {

/// A socket that also receives the traffic class of each datagram.
class Listener {
 public:
  explicit Listener(bool ipv6) : ipv6_(ipv6), socket_(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0)) {
    const SocketAddress any(loopback(9, ipv6), 0);
    const int on = 1;
    BOOST_REQUIRE(setsockopt(socket_.get(), ipv6 ? SOL_IPV6 : SOL_IP, ipv6 ? IPV6_RECVTCLASS : IP_RECVTOS,
                             &on, sizeof on) == 0);
    BOOST_REQUIRE(bind(socket_.get(), &any.generic, any.size()) == 0);
  }
  Address address() const {
    SocketAddress bound;
    socklen_t length = sizeof bound;
    getsockname(socket_.get(), &bound.generic, &length);
    return bound.address();
  }
  int next_class() const {
    std::array<std::byte, 2000> bytes;
    alignas(cmsghdr) std::array<std::byte, 64> control;
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.data(), .msg_controllen = control.size()};
    pollfd readable{socket_.get(), POLLIN, 0};
    BOOST_REQUIRE(poll(&readable, 1, 10'000) == 1);
    BOOST_REQUIRE(recvmsg(socket_.get(), &message, 0) > 0);
    const cmsghdr* const first = CMSG_FIRSTHDR(&message);
    BOOST_REQUIRE(first != nullptr);
    int value = 0;  // This is a byte for IPv4, and an int for IPv6.
    std::memcpy(&value, CMSG_DATA(first), ipv6_ ? sizeof value : 1);
    return value;
  }

 private:
  bool ipv6_;
  Descriptor socket_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(everything_that_leaves_has_the_dscp_and_its_own_ecn) {
  constexpr int kCapable = 2;
  for (const bool ipv6 : {false, true}) {
    const Listener listener(ipv6);
    for (const int dscp : {0, 46, 63}) {
      const auto sender = open({.address = loopback(1, ipv6), .dscp = static_cast<std::uint8_t>(dscp)});
      const FlowId flow = *sender->open_flow();
      for (const FlowId source : {kSharedFlow, flow}) {
        Sendable sendable(Bytes(3 * 400), 400, listener.address(), source);
        for (const bool capable : {false, true}) {
          sendable.train.ecn_capable = capable;
          send(*sender, sendable.train);
          for (int i = 0; i < 3; ++i)
            BOOST_TEST(listener.next_class() == (dscp << 2 | (capable ? kCapable : 0)));
        }
      }
    }
  }
  const auto refused = open_udp_port({.address = loopback(1), .dscp = 64});
  BOOST_TEST((!refused && refused.error().code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(trains_of_ecn_capable_datagrams_arrive_whole_and_unmarked) {
  for (const bool ipv6 : {false, true}) {
    const auto sender = open({.address = loopback(1, ipv6)});
    const auto receiver = open({.address = loopback(2, ipv6)});
    const Bytes sent = random_bytes(3 * 400, 1);
    Sendable sendable(sent, 400, receiver->info().address);
    sendable.train.ecn_capable = true;
    send(*sender, sendable.train);
    const auto got = receive_datagrams(*receiver, 3);
    BOOST_TEST(got.size() == 3);
    for (const Datagram& datagram : got) BOOST_TEST(!datagram.congestion_experienced);
  }
}

BOOST_AUTO_TEST_SUITE_END()
