// Receiving. The port asks the planner immediately before it calls the kernel. The kernel scatters each train
// into the scatter list. Bytes that do not fit go to the overflow buffer at the end of the list.
#include <netinet/ip.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/port/udp_driver.hpp"

namespace rdmc::port {
namespace {

struct Ancillary {
  std::uint32_t segment_bytes = 0;  // 0 if the message is not a train.
  std::uint32_t drops = 0;
  bool congestion_experienced = false;
};

template <typename Value>
Value value_in(cmsghdr* header) {
  Value value;
  std::memcpy(&value, CMSG_DATA(header), sizeof value);
  return value;
}

bool marked(int traffic_class) {
  return (traffic_class & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
}

Ancillary parse(msghdr& message, std::uint32_t drops_seen) {
  Ancillary found{.drops = drops_seen};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    const int level = header->cmsg_level;
    const int type = header->cmsg_type;
    if (level == SOL_UDP && type == UDP_GRO)
      found.segment_bytes = static_cast<std::uint32_t>(value_in<int>(header));
    if (level == SOL_SOCKET && type == SO_RXQ_OVFL) found.drops = value_in<std::uint32_t>(header);
    if (level == SOL_IP && type == IP_TOS)
      found.congestion_experienced = marked(value_in<std::uint8_t>(header));
    if (level == SOL_IPV6 && type == IPV6_TCLASS)
      found.congestion_experienced = marked(value_in<int>(header));
  }
  return found;
}

}  // namespace

/// Appends to readable_ the flows that were newly reported.
void UdpPort::list_readable() {
  for (const FlowId id : reported_) {
    Flow* const flow = find(id);  // Null if the flow was closed in the meantime.
    if (flow == nullptr || flow->listed) continue;
    // The entry is added first. If there is no memory for the entry, the flow stays in reported_.
    readable_.push_back(id);
    flow->listed = true;
  }
  reported_.clear();
}

std::size_t UdpPort::receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) {
  if (readable_.empty() || ++bursts_since_poll_ >= kBurstsBetweenPolls) {
    bursts_since_poll_ = 0;
    readiness_->poll(reported_);
    list_readable();
  }
  const std::size_t room = std::min(out.size(), kTrainsPerBurst);
  scatter_lists_used_ = 0;
  std::size_t received = 0;
  const std::size_t round = readable_.size();
  std::size_t served = 0;
  for (; served < round && scatter_lists_used_ < room; ++served) {
    const FlowId id = readable_[served];
    received += receive_flow(id, planner, out.subspan(received, room - scatter_lists_used_));
    // A flow leaves readable_ only after it was found empty, because no new event reports datagrams that are
    // already there.
    if (find(id)->listed) readable_.push_back(id);
  }
  readable_.erase(readable_.begin(), readable_.begin() + static_cast<std::ptrdiff_t>(served));
  return received;
}

/// Prepares the buffers for the next trains of a flow. Returns the number of these trains. If the planner
/// plans the first train, the result counts only the trains before the first one that the planner cannot
/// plan. If the planner does not plan the first train, all trains go to the overflow buffers.
std::size_t UdpPort::plan_scatter_lists(FlowId id, ScatterPlanner& planner, std::size_t at_most) {
  const std::size_t first = scatter_lists_used_;
  std::size_t count = 0;
  bool planned = true;
  for (; count < at_most; ++count) {
    ScatterList& scatter_list = scatter_lists_[first + count];
    scatter_list.planned = 0;
    if (planned) {
      const std::span room = std::span(scatter_list.pieces).first(kPiecesPerTrain - 1);
      scatter_list.planned = planner.plan(id, static_cast<std::uint32_t>(count), room);
      planned = scatter_list.planned > 0;
      // It is better to end the burst here and to ask the planner again later than to copy the payload.
      if (!planned && count > 0) break;
    }
    scatter_list.pieces[scatter_list.planned] = {overflow_.get() + (first + count) * kOverflowBytes,
                                                 kOverflowBytes};
    msghdr& message = messages_[count].msg_hdr;
    message = {};
    message.msg_name = &scatter_list.source;
    message.msg_namelen = sizeof scatter_list.source;
    message.msg_iov = scatter_list.pieces.data();
    message.msg_iovlen = scatter_list.planned + 1;
    message.msg_control = scatter_list.control.bytes;
    message.msg_controllen = sizeof scatter_list.control.bytes;
  }
  return count;
}

std::size_t UdpPort::receive_flow(FlowId id, ScatterPlanner& planner, std::span<RxTrain> out) {
  Flow& flow = *find(id);
  const std::size_t asked = plan_scatter_lists(id, planner, std::min(out.size(), kTrainsPerFlow));
  ++counters_.system_calls;
  const int got = recvmmsg(flow.socket.descriptor(), messages_.data(), static_cast<unsigned>(asked),
                           MSG_DONTWAIT, nullptr);
  // The kernel returns fewer messages than requested only if it has found the flow empty.
  if (got < 0 ? errno == EAGAIN : static_cast<std::size_t>(got) < asked) flow.listed = false;
  if (got < 0) return 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
    if (finish(flow, id, i, scatter_lists_[scatter_lists_used_ + i], out[kept])) ++kept;
  }
  scatter_lists_used_ += static_cast<std::size_t>(got);
  return kept;
}

/// Converts message `message` into a train. Returns false if there is nothing to return to the caller.
bool UdpPort::finish(Flow& flow, FlowId id, std::size_t message, ScatterList& scatter_list, RxTrain& train) {
  msghdr& header = messages_[message].msg_hdr;
  const std::uint32_t bytes = messages_[message].msg_len;
  const Ancillary ancillary = parse(header, flow.drops_seen);
  counters_.receive_dropped += ancillary.drops - flow.drops_seen;
  flow.drops_seen = ancillary.drops;
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    ++counters_.receive_truncated;
    return false;
  }
  const std::uint32_t segment = ancillary.segment_bytes != 0 ? ancillary.segment_bytes : bytes;
  ++counters_.trains_received;
  counters_.datagrams_received += bytes == 0 ? 1 : (bytes + segment - 1) / segment;
  counters_.bytes_received += bytes;
  if (bytes == 0) return false;  // An empty datagram carries nothing for the fabric.

  std::size_t used = 0;
  for (std::size_t left = bytes; left > 0; ++used) {
    scatter_list.pieces[used].iov_len = std::min(scatter_list.pieces[used].iov_len, left);
    left -= scatter_list.pieces[used].iov_len;
  }
  train = {.flow = id,
           .source = scatter_list.source.address(),
           .pieces = std::span(scatter_list.pieces).first(used),
           .segment_bytes = segment,
           .total_bytes = bytes,
           .congestion_experienced = ancillary.congestion_experienced,
           .planned = scatter_list.planned > 0};
  return true;
}

void UdpPort::wait(Time deadline) {
  if (!readable_.empty()) return;
  ++counters_.waits;
  readiness_->wait(deadline, reported_);
  list_readable();
}

Time UdpPort::prepare_wait(Time deadline) {
  if (!readable_.empty()) return Time{};
  ++counters_.waits;
  const bool may_wait = readiness_->may_wait(reported_);
  list_readable();
  return may_wait ? deadline : Time{};
}

}  // namespace rdmc::port
