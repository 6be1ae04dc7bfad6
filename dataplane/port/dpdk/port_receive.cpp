// Receiving. Frames are read in place. A frame for a flow is lent to the caller as a train of one datagram. A
// frame of ARP or neighbour discovery goes to the Neighbours object. All other frames are dropped. Every
// kBurstsPerTick-th burst also runs the timers.
#include <rte_prefetch.h>

#include <algorithm>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/port/dpdk/dpdk_port.hpp"
#include "dataplane/port/dpdk/eal.hpp"

namespace rdmc::port::dpdk {
namespace {

/// The length of the headers of an IPv4 frame, the offset of the identification, and the offset of the UDP
/// port numbers.
constexpr std::size_t kLeastUdpFrame = kEthernetBytes + kIpv4Bytes + kUdpBytes, kIdentificationAt = 18,
                      kPortsAt = 34;

/// The number of frames that are prefetched ahead of the current frame. On a memif, the core of the other end
/// has just written these frames. A cache line needs about the time of processing a few frames to get from
/// that core to this one.
constexpr std::uint16_t kPrefetched = 8;

/// Prefetches the headers and the bytes after the headers. A small frame has no further bytes.
void prefetch(const rte_mbuf& frame) {
  const auto* const start = rte_pktmbuf_mtod(&frame, const char*);
  rte_prefetch0(start);
  rte_prefetch0(start + RTE_CACHE_LINE_SIZE);
}

std::size_t index_of_ports(std::span<const std::byte> frame) {
  return load_be<std::uint32_t>(&frame[kPortsAt]) * 0x9E37'79B9U >> 26;
}
static_assert(DpdkPort::kKnown == 64, "index_of_ports gives six bits");

std::uint64_t PortCounters::*counter_of(Unusable why) {
  switch (why) {
    case Unusable::truncated: return &PortCounters::frames_truncated;
    case Unusable::other_protocol: return &PortCounters::frames_of_other_protocols;
    case Unusable::fragment: return &PortCounters::fragments;
    case Unusable::options: return &PortCounters::frames_with_options;
    case Unusable::bad_checksum: return &PortCounters::bad_checksums;
    case Unusable::wrong_hop_limit: return &PortCounters::wrong_hop_limits;
  }
  __builtin_unreachable();
}

}  // namespace

std::size_t DpdkPort::receive_burst(ScatterPlanner&, std::span<RxTrain> out) {
  register_this_thread();
  release_received();
  if (++bursts_ % kBurstsPerTick == 0) tick(monotonic_now());
  if (held_packets_ == 0)
    held_packets_ = take_burst(static_cast<std::uint16_t>(std::min<std::size_t>(out.size(), kBurst)));
  std::size_t count = 0;
  for (std::uint16_t i = 0; i < std::min(kPrefetched, held_packets_); ++i) prefetch(*received_[i]);
  for (; lent_ < held_packets_ && count < out.size(); ++lent_) {
    if (lent_ + kPrefetched < held_packets_) prefetch(*received_[lent_ + kPrefetched]);
    if (accept(*received_[lent_], out[count], pieces_[count])) ++count;
  }
  return count;
}

/// Frees the buffers that the last burst lent to the caller. The other frames move to the front.
void DpdkPort::release_received() {
  if (lent_ == 0) return;
  rte_pktmbuf_free_bulk(received_.data(), lent_);
  std::copy(received_.begin() + lent_, received_.begin() + held_packets_, received_.begin());
  held_packets_ = static_cast<std::uint16_t>(held_packets_ - lent_);
  lent_ = 0;
}

std::uint16_t DpdkPort::take_burst(std::uint16_t at_most) {
  const MemifPass pass(gate());
  if (!pass) return 0;
  return rte_eth_rx_burst(device_->id(), Device::kQueue, received_.data(), at_most);
}

/// Returns true if the frame carries a datagram for one of this port's flows. Then `train` describes it.
bool DpdkPort::accept(rte_mbuf& buffer, RxTrain& train, iovec& piece) {
  if (buffer.nb_segs != 1) {
    // The frame is larger than the MTU and did not fit one packet buffer.
    ++counters_.receive_truncated;
    return false;
  }
  const std::span bytes(rte_pktmbuf_mtod(&buffer, std::byte*), buffer.data_len);
  if (bytes.size() >= kLeastUdpFrame) {
    const Known& known = known_[index_of_ports(bytes)];
    if (const auto payload_bytes = known.pattern.match(bytes))
      return deliver(known, load_be<std::uint16_t>(&bytes[kIdentificationAt]),
                     bytes.subspan(kLeastUdpFrame, *payload_bytes), train, piece);
  }
  const Frame frame = read_frame(bytes);
  if (const auto* const message = std::get_if<NeighbourMessage>(&frame)) {
    now_ = monotonic_now();
    neighbours_.on_message(*message, now_);
    send_neighbour_messages();
    send_held();
    return false;
  }
  if (const auto* const why = std::get_if<Unusable>(&frame)) {
    ++(counters_.*counter_of(*why));
    return false;
  }
  const auto* const udp = std::get_if<UdpFrame>(&frame);
  if (udp->destination.ipv6 != info_.address.ipv6 || udp->destination.bytes != info_.address.bytes) {
    ++counters_.for_other_addresses;
    return false;
  }
  const Known found{.pattern = UdpPattern(bytes),
                    .source = udp->source,
                    .udp_port = udp->destination.port,
                    .congestion_experienced = udp->congestion_experienced};
  if (bytes.size() >= kLeastUdpFrame) known_[index_of_ports(bytes)] = found;
  return deliver(found, udp->identification, bytes.subspan(udp->payload_offset, udp->payload_bytes), train,
                 piece);
}

bool DpdkPort::deliver(const Known& from, std::uint16_t identification, std::span<std::byte> payload,
                       RxTrain& train, iovec& piece) {
  const std::uint16_t flow = flow_of_port_[from.udp_port];
  if (flow == 0) {
    ++counters_.for_closed_ports;
    return false;
  }
  ++counters_.datagrams_received;
  ++counters_.trains_received;
  counters_.bytes_received += payload.size();
  if (payload.empty()) return false;
  piece = {payload.data(), payload.size()};
  train.flow = FlowId{flow - 1U};
  train.source = from.source;
  train.pieces = std::span(&piece, 1);
  train.segment_bytes = train.total_bytes = static_cast<std::uint32_t>(payload.size());
  train.congestion_experienced = from.congestion_experienced;
  train.planned = false;
  train.identification = identification;
  return true;
}

void DpdkPort::tick(Time now) {
  now_ = now;
  if (next_link_check_ <= now) check_link();
  if (neighbours_.next_deadline() <= now) neighbours_.on_timer(now);
  send_neighbour_messages();
  send_held();
}

/// Checks the link and counts losses and returns. A link that has never been up does not count as lost: the
/// first datagrams on such a link wait.
void DpdkPort::check_link() {
  next_link_check_ = now_ + kLinkCheckInterval;
  const bool up = device_->link_is_up();
  if (up && link_is_lost()) {
    ++counters_.link_returns;
    neighbours_.announce();  // The link may now connect to other hosts or to another switch.
  } else if (!up && link_was_up_ && !link_is_lost()) {
    ++counters_.link_losses;
  }
  link_was_up_ = link_was_up_ || up;
}

}  // namespace rdmc::port::dpdk
