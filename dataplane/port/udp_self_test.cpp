#include "dataplane/port/udp_self_test.hpp"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/udp.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/port/udp_socket.hpp"

namespace rdmc::port {
namespace {

constexpr std::uint16_t kSegmentBytes = 200;
constexpr std::size_t kTrainBytes = 2 * kSegmentBytes + 60;  // The last segment is shorter.
constexpr int kPatienceMs = 50;

using Train = std::array<std::byte, kTrainBytes>;

Train pattern() {
  Train bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

bool readable(const UdpSocket& socket, short events) {
  pollfd one{socket.descriptor(), events, 0};
  return poll(&one, 1, kPatienceMs) == 1;
}

ssize_t send(const UdpSocket& from, SocketAddress to, std::span<const std::byte> bytes,
             std::uint16_t segment) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof segment)> control{};
  msghdr message{&to, to.size(), &piece, 1, nullptr, 0, 0};
  if (segment != 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_len = CMSG_LEN(sizeof segment);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    std::memcpy(CMSG_DATA(header), &segment, sizeof segment);
  }
  return sendmsg(from.descriptor(), &message, 0);
}

struct Received {
  std::size_t bytes = 0;
  std::size_t segment_bytes = 0;  // 0 if the datagram was received alone.
};

/// Appends what one call received to `into`, at offset `at`.
std::optional<Received> receive(const UdpSocket& socket, Train& into, std::size_t at) {
  iovec piece{into.data() + at, into.size() - at};
  alignas(cmsghdr) std::array<std::byte, 256> control;
  msghdr message{nullptr, 0, &piece, 1, control.data(), control.size(), 0};
  if (!readable(socket, POLLIN)) return std::nullopt;
  const ssize_t bytes = recvmsg(socket.descriptor(), &message, MSG_DONTWAIT);
  if (bytes <= 0) return std::nullopt;
  Received received{static_cast<std::size_t>(bytes)};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_UDP || header->cmsg_type != UDP_GRO) continue;
    int segment = 0;
    std::memcpy(&segment, CMSG_DATA(header), sizeof segment);
    received.segment_bytes = static_cast<std::size_t>(segment);
  }
  return received;
}

/// Reads the IPv4 identification of a sent packet. The kernel returns the packet, with all its headers,
/// together with its transmit timestamp. This needs no privilege.
std::optional<std::uint16_t> identification_of_sent(const UdpSocket& socket) {
  if (!readable(socket, 0)) return std::nullopt;  // POLLERR is always reported and needs no flag.
  std::array<std::byte, 1024> packet;
  iovec piece{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<std::byte, 512> control;
  msghdr message{nullptr, 0, &piece, 1, control.data(), control.size(), 0};
  const ssize_t bytes = recvmsg(socket.descriptor(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
  if (bytes <= 0) return std::nullopt;
  // The packet has a link header (14 bytes for an Ethernet or loopback device, otherwise none), an IPv4
  // header, a UDP header and the payload.
  for (const std::size_t link : {std::size_t{14}, std::size_t{0}}) {
    if (static_cast<std::size_t>(bytes) >= link + 28 && packet[link] == std::byte{0x45} &&
        packet[link + 9] == std::byte{IPPROTO_UDP})
      return load_be<std::uint16_t>(&packet[link + 4]);
  }
  return std::nullopt;
}

}  // namespace

Result<UdpAbilities> try_udp(const SocketAddress& address) {
  UdpSocketOptions options{.receive_buffer_bytes = 1 << 17, .send_buffer_bytes = 1 << 17};
  const auto from = UdpSocket::bind(address, options);
  if (!from) return std::unexpected(from.error());
  const auto to = UdpSocket::bind(address, options);
  if (!to) return std::unexpected(to.error());
  const bool gro = to->set(SOL_UDP, UDP_GRO, 1);
  const SocketAddress destination(to->address(),
                                  address.generic.sa_family == AF_INET6 ? address.ipv6.sin6_scope_id : 0);

  UdpAbilities abilities;
  const Train sent = pattern();
  Train got{};
  if (send(*from, destination, std::span(sent).first(kSegmentBytes), 0) != kSegmentBytes) return abilities;
  const auto plain = receive(*to, got, 0);
  abilities.reaches_itself = plain && plain->bytes == kSegmentBytes;
  if (!abilities.reaches_itself) return abilities;

  from->set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
  if (send(*from, destination, sent, kSegmentBytes) != kTrainBytes) return abilities;
  got = {};
  std::size_t total = 0;
  bool together = false;
  while (total < kTrainBytes) {
    const auto part = receive(*to, got, total);
    if (!part) break;
    total += part->bytes;
    together = part->bytes == kTrainBytes && part->segment_bytes == kSegmentBytes;
  }
  abilities.segmentation = total == kTrainBytes && got == sent;
  abilities.receive_trains = gro && abilities.segmentation && together;
  if (address.generic.sa_family == AF_INET) abilities.first_identification = identification_of_sent(*from);
  return abilities;
}

}  // namespace rdmc::port
