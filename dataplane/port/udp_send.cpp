// Sending. Each train is one message, and the kernel cuts it into segments (UDP_SEGMENT). One call sends
// several messages if they leave through the same flow.
#include <linux/sockios.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/base/clock.hpp"
#include "dataplane/port/piece_cutter.hpp"
#include "dataplane/port/udp_driver.hpp"

namespace rdmc::port {
namespace {

std::uint32_t segments(const TxTrain& train) {
  return (train.total_bytes + train.segment_bytes - 1) / train.segment_bytes;
}

template <typename Value>
cmsghdr* put(msghdr& message, cmsghdr* after, int level, int type, Value value) {
  cmsghdr* const header = after == nullptr ? CMSG_FIRSTHDR(&message) : CMSG_NXTHDR(&message, after);
  header->cmsg_len = CMSG_LEN(sizeof value);
  header->cmsg_level = level;
  header->cmsg_type = type;
  std::memcpy(CMSG_DATA(header), &value, sizeof value);
  return header;
}

}  // namespace

bool UdpPort::fits_one_call(const TxTrain& train) const {
  return train.total_bytes <= train.segment_bytes || segments(train) <= info_.train_segments;
}

/// Prepares message `slot`, except its pieces. If segment_bytes is 0, the message is a single datagram.
void UdpPort::prepare(std::size_t slot, const TxTrain& train, std::uint32_t segment_bytes) {
  destinations_[slot] = SocketAddress(train.destination, interface_.index);
  msghdr& message = messages_[slot].msg_hdr;
  message = {};
  message.msg_name = &destinations_[slot];
  message.msg_namelen = destinations_[slot].size();
  if (segment_bytes == 0 && !train.ecn_capable) return;
  // The old contents are erased, because CMSG_NXTHDR reads them.
  controls_[slot] = {};
  message.msg_control = controls_[slot].bytes;
  message.msg_controllen = sizeof controls_[slot].bytes;
  cmsghdr* last = nullptr;
  std::size_t length = 0;
  if (segment_bytes != 0) {
    last = put(message, last, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(segment_bytes));
    length += CMSG_SPACE(sizeof(std::uint16_t));
  }
  if (train.ecn_capable) {
    put(message, last, train.destination.ipv6 ? SOL_IPV6 : SOL_IP,
        train.destination.ipv6 ? IPV6_TCLASS : IP_TOS, traffic_class_of(options_.dscp) | IPTOS_ECN_ECT0);
    length += CMSG_SPACE(sizeof(int));
  }
  message.msg_controllen = length;
}

/// True if fewer bytes than the limit wait to leave this host. Asks the kernel once for every
/// EgressLimit::kBytesPerLook bytes. If many bytes wait already, asks at each call.
bool UdpPort::may_add() {
  if (info_.same_host_only || egress_.admits_unseen()) return true;
  std::uint64_t waiting = 0;
  std::erase_if(leaving_, [&](FlowId id) {
    Flow* const flow = find(id);
    if (flow == nullptr) return true;  // The flow was closed in the meantime.
    int bytes = 0;
    ++counters_.system_calls;
    flow->leaving = ioctl(flow->socket.descriptor(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
    if (flow->leaving) waiting += static_cast<std::uint64_t>(bytes);
    return !flow->leaving;
  });
  return egress_.look(waiting, monotonic_now());
}

void UdpPort::count_sent(const TxTrain& train) {
  Flow& flow = *find(train.source);
  if (!std::exchange(flow.leaving, true)) leaving_.push_back(train.source);
  egress_.added(train.total_bytes);
  ++counters_.trains_sent;
  counters_.datagrams_sent += segments(train);
  counters_.bytes_sent += train.total_bytes;
}

/// Classifies an error of sending. A device that cannot segment gives an error only when it gets a train.
UdpPort::Refusal UdpPort::refused(int error, bool train_of_several) {
  if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
    ++counters_.send_refused;
    return Refusal::for_now;
  }
  ++counters_.send_failed;
  if (error == EIO && train_of_several && info_.train_segments > 1) {
    info_.train_segments = 1;
    info_.identification_counts_up = false;
    info_.notes.push_back("sending trains (UDP_SEGMENT) turned off: " + interface_.name + " refused one");
  }
  return Refusal::for_good;
}

std::size_t UdpPort::send_burst(std::span<const TxTrain> trains) {
  std::size_t taken = 0;
  if (!may_add()) {
    ++counters_.send_refused;
    return 0;
  }
  while (taken < trains.size()) {
    const std::span rest = trains.subspan(taken);
    assert(rest[0].segment_bytes > 0 && find(rest[0].source) != nullptr);
    if (!fits_one_call(rest[0])) {
      if (!send_one_by_one(rest[0])) break;
      ++taken;
      continue;
    }
    const auto other = std::ranges::find_if(rest.subspan(1), [&](const TxTrain& train) {
      return train.source != rest[0].source || !fits_one_call(train);
    });
    const auto alike = static_cast<std::size_t>(other - rest.subspan(1).begin()) + 1;
    const std::size_t now = send_together(rest.first(std::min(alike, kMessagesPerCall)));
    if (now == 0) break;
    taken += now;
  }
  return taken;
}

/// Sends trains of one flow, one message for each train. Returns the number of accepted trains, which is 0 if
/// the kernel has no space.
std::size_t UdpPort::send_together(std::span<const TxTrain> trains) {
  for (std::size_t i = 0; i < trains.size(); ++i) {
    prepare(i, trains[i], trains[i].total_bytes > trains[i].segment_bytes ? trains[i].segment_bytes : 0);
    messages_[i].msg_hdr.msg_iov = const_cast<iovec*>(trains[i].pieces.data());
    messages_[i].msg_hdr.msg_iovlen = trains[i].pieces.size();
  }
  const int socket = find(trains[0].source)->socket.descriptor();
  int sent = 0;
  do {
    ++counters_.system_calls;
    sent = sendmmsg(socket, messages_.data(), static_cast<unsigned>(trains.size()), 0);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    const bool several = trains[0].total_bytes > trains[0].segment_bytes;
    return refused(errno, several) == Refusal::for_good ? 1 : 0;
  }
  for (const TxTrain& train : trains.first(static_cast<std::size_t>(sent))) count_sent(train);
  return static_cast<std::size_t>(sent);
}

/// Cuts the train into datagrams and sends these datagrams. Returns false if the kernel had no space for all
/// of them. Then the caller sends the train again from its start. The datagrams that have left already are
/// then sent twice, which is harmless because a network may also duplicate datagrams.
bool UdpPort::send_one_by_one(const TxTrain& train) {
  const int socket = find(train.source)->socket.descriptor();
  PieceCutter cutter(train.pieces);
  std::array<iovec, kPiecesPerTrain> pieces;
  prepare(0, train, 0);
  msghdr& message = messages_[0].msg_hdr;
  message.msg_iov = pieces.data();
  for (std::uint32_t left = train.total_bytes; left > 0;) {
    const std::uint32_t bytes = std::min(left, train.segment_bytes);
    message.msg_iovlen = cutter.cut(bytes, pieces);
    ++counters_.system_calls;
    if (sendmsg(socket, &message, 0) < 0) {
      if (refused(errno, false) == Refusal::for_now) return false;
    }
    left -= bytes;
  }
  count_sent(train);
  return true;
}

}  // namespace rdmc::port
