// The ICRC covers the IPv4 identification. If a port predicts the identification wrongly, foreign endpoints
// reject every packet. So this test examines the packets themselves. It uses its own network namespace, in
// which the device cannot segment, so that the kernel must segment the trains.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "dataplane/base/bytes.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"
#include "tests/skipped_cases.hpp"

BOOST_AUTO_TEST_SUITE(udp_identification_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

/// Makes the kernel segment trains before the loopback device gets them. Normally, loopback carries a train
/// from socket to socket as a whole.
void forbid_trains_on_loopback() {
  struct {
    nlmsghdr header;
    ifinfomsg link;
    rtattr attribute;
    std::uint32_t segments;
  } request{};
  request.header = {sizeof request, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0};
  request.link.ifi_index = static_cast<int>(if_nametoindex("lo"));
  request.attribute = {sizeof request.attribute + sizeof request.segments, IFLA_GSO_MAX_SEGS};
  request.segments = 1;
  const int control = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  BOOST_REQUIRE_EQUAL(::send(control, &request, sizeof request, 0), sizeof request);
  struct {
    nlmsghdr header;
    nlmsgerr error;
  } answer{};
  BOOST_REQUIRE(recv(control, &answer, sizeof answer, 0) > 0);
  BOOST_REQUIRE_EQUAL(answer.error.error, 0);
  close(control);
}

/// Enters a network namespace that contains only loopback. Returns false if this is not permitted.
bool enter_own_network() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  const int control = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq up{};
  std::strcpy(up.ifr_name, "lo");
  up.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
  BOOST_REQUIRE_EQUAL(ioctl(control, SIOCSIFFLAGS, &up), 0);
  close(control);
  forbid_trains_on_loopback();
  return true;
}

struct SeenPacket {
  std::uint16_t identification;
  bool dont_fragment;
  std::uint8_t ecn;
  std::size_t udp_payload_bytes;
};

/// Captures the packets that leave through loopback.
class Capture {
 public:
  Capture() : socket_(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL))) { BOOST_REQUIRE(socket_ >= 0); }
  ~Capture() { close(socket_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::vector<SeenPacket> packets_to(std::uint16_t udp_port, std::size_t count) {
    std::vector<SeenPacket> seen;
    while (seen.size() < count) {
      pollfd readable{socket_, POLLIN, 0};
      BOOST_REQUIRE_EQUAL(poll(&readable, 1, 10'000), 1);
      std::array<std::byte, 70'000> frame;
      sockaddr_ll from{};
      socklen_t length = sizeof from;
      const ssize_t bytes =
          recvfrom(socket_, frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
      BOOST_REQUIRE(bytes > 0);
      if (from.sll_pkttype != PACKET_OUTGOING || bytes < 42 || frame[14] != std::byte{0x45}) continue;
      if (load_be<std::uint16_t>(&frame[36]) != udp_port) continue;
      seen.push_back({load_be<std::uint16_t>(&frame[18]), (frame[20] & std::byte{0x40}) != std::byte{0},
                      static_cast<std::uint8_t>(std::to_integer<unsigned>(frame[15]) & 3U),
                      load_be<std::uint16_t>(&frame[38]) - std::size_t{8}});
    }
    return seen;
  }

 private:
  int socket_;
};

struct OwnNetwork {
  OwnNetwork() : permitted(enter_own_network()) {
    if (!permitted)
      rdmc::testing::SkippedCases::reason() = "packets can only be seen as root (CAP_NET_ADMIN, CAP_NET_RAW)";
  }
  const bool permitted;
};

const OwnNetwork& network() {
  static const OwnNetwork own;
  return own;
}

boost::test_tools::assertion_result permitted(boost::unit_test::test_unit_id) {
  return network().permitted;
}

}  // namespace

BOOST_AUTO_TEST_CASE(datagram_k_of_a_train_carries_identification_k,
                     *boost::unit_test::precondition(permitted)) {
  Capture capture;
  const auto sender = open(1);
  const auto receiver = open(2);
  BOOST_REQUIRE(sender->info().identification_counts_up);
  for (int round = 0; round < 3; ++round) {
    send(*sender, random_bytes(5 * 700 + 33, 1), 700, receiver->info().address);
    const auto seen = capture.packets_to(receiver->info().address.port, 6);
    for (std::size_t k = 0; k < seen.size(); ++k) {
      BOOST_TEST(seen[k].identification == k);
      BOOST_TEST(seen[k].dont_fragment);
      BOOST_TEST(seen[k].udp_payload_bytes == (k < 5 ? 700 : 33));
    }
  }
}

BOOST_AUTO_TEST_CASE(single_datagrams_and_trains_sent_one_by_one_all_carry_zero,
                     *boost::unit_test::precondition(permitted)) {
  Capture capture;
  const auto whole = open(1);
  const auto cutting = open({.address = loopback(3), .segmentation = Use::off});
  const auto receiver = open(2);
  const FlowId flow = *whole->open_flow();
  for (int i = 0; i < 3; ++i) send(*whole, random_bytes(700, 1), 700, receiver->info().address, flow);
  send(*cutting, random_bytes(4 * 700, 1), 700, receiver->info().address);
  BOOST_TEST(!cutting->info().identification_counts_up);
  for (const SeenPacket& packet : capture.packets_to(receiver->info().address.port, 7)) {
    BOOST_TEST(packet.identification == 0);
    BOOST_TEST(packet.dont_fragment);
  }
}

BOOST_AUTO_TEST_CASE(only_what_was_asked_to_be_is_marked_ecn_capable,
                     *boost::unit_test::precondition(permitted)) {
  Capture capture;
  const auto sender = open(1);
  const auto receiver = open(2);
  Sendable sendable(random_bytes(2 * 700, 1), 700, receiver->info().address);
  send(*sender, sendable.train);
  sendable.train.ecn_capable = true;
  send(*sender, sendable.train);
  const auto seen = capture.packets_to(receiver->info().address.port, 4);
  const std::array<int, 4> expected{0, 0, 2, 2};
  for (std::size_t i = 0; i < seen.size(); ++i) BOOST_TEST(seen[i].ecn == expected.at(i));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_must_segment_delivers_trains_all_the_same,
                     *boost::unit_test::precondition(permitted)) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Bytes sent = random_bytes(40 * 1400, 1);
  send(*sender, sent, 1400, receiver->info().address);
  Bytes got;
  for (const Datagram& datagram : receive_datagrams(*receiver, 40))
    got.insert(got.end(), datagram.bytes.begin(), datagram.bytes.end());
  BOOST_TEST((got == sent));
}

BOOST_AUTO_TEST_CASE(a_mark_of_congestion_is_seen, *boost::unit_test::precondition(permitted)) {
  const auto receiver = open(2);
  const int marker = socket(AF_INET, SOCK_DGRAM, 0);
  const int congested = 3;
  BOOST_REQUIRE_EQUAL(setsockopt(marker, SOL_IP, IP_TOS, &congested, sizeof congested), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(receiver->info().address.port);
  std::memcpy(&to.sin_addr, receiver->info().address.bytes.data(), 4);
  BOOST_REQUIRE_EQUAL(sendto(marker, "marked", 6, 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 6);
  close(marker);
  BOOST_TEST(receive_datagrams(*receiver, 1)[0].congestion_experienced);
}

BOOST_AUTO_TEST_SUITE_END()
