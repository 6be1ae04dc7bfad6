#include "dataplane/port/sim_port.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rdmc::port {
namespace {

constexpr std::uint32_t kIpv4AndUdp = 28, kIpv6AndUdp = 48;
constexpr std::size_t kMostMergedBytes = 65'535;

/// Steps through the bytes of a scatter-gather list.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> pieces) : pieces_(pieces) {}

  template <typename Use>
  void advance(std::size_t bytes, Use&& use) {
    while (bytes > 0) {
      assert(!pieces_.empty() && "a train with fewer bytes in its pieces than it says");
      const iovec& piece = pieces_.front();
      const std::size_t part = std::min(bytes, piece.iov_len - used_);
      if (part > 0) use(static_cast<std::byte*>(piece.iov_base) + used_, part);
      bytes -= part;
      used_ += part;
      if (used_ == piece.iov_len) {
        pieces_ = pieces_.subspan(1);
        used_ = 0;
      }
    }
  }

 private:
  std::span<const iovec> pieces_;
  std::size_t used_ = 0;
};

}  // namespace

SimPort::SimPort(sim::Network& network, sim::ProcessId owner, const SimPortOptions& options)
    : network_(network),
      owner_(owner),
      host_(network.simulation().host(owner)),
      send_buffer_bytes_(options.send_buffer_bytes),
      holds_back_(options.holds_back) {
  flows_.push_back(std::make_unique<Flow>(*this, kSharedFlow));
  Flow& shared = *flows_.front();
  shared.udp_port = network_.bind(owner_, options.shared_port, shared) ? options.shared_port
                                                                       : network_.bind_any(owner_, shared);
  info_.driver = "sim";
  info_.address = network_.address(host_);
  info_.address.port = shared.udp_port;
  info_.mtu = options.mtu;
  info_.train_segments = options.train_segments;
  info_.train_bytes = options.train_bytes;
  info_.receive_train_segments = options.receive_train_segments;
  info_.identification_counts_up = options.identification_counts_up;
  info_.receive_buffer_bytes = options.receive_buffer_bytes;
}

SimPort::~SimPort() {
  for (const auto& flow : flows_) close_flow(flow->flow);
}

Result<FlowId> SimPort::open_flow() {
  const auto id = FlowId{static_cast<std::uint32_t>(flows_.size())};
  flows_.push_back(std::make_unique<Flow>(*this, id));
  flows_.back()->udp_port = network_.bind_any(owner_, *flows_.back());
  return id;
}

std::uint16_t SimPort::udp_port(FlowId flow) const {
  return flows_[value_of(flow)]->udp_port;
}

void SimPort::close_flow(FlowId id) {
  Flow& flow = *flows_[value_of(id)];
  if (!flow.open) return;
  flow.open = false;
  network_.unbind(owner_, flow.udp_port, flow);
  for (const sim::DatagramId datagram : flow.queue) network_.release(datagram);
  flow.queue.clear();
  std::erase(ready_, id);
}

void SimPort::deliver(Flow& flow, sim::DatagramId id) {
  const std::uint32_t size = network_[id].size;
  if (flow.queued_bytes + size > info_.receive_buffer_bytes) {
    ++counters_.receive_dropped;
    network_.drop_received(id);
    return;
  }
  if (flow.queue.empty()) ready_.push_back(flow.flow);
  flow.queue.push_back(id);
  flow.queued_bytes += size;
  network_.simulation().wake(owner_);
}

/// True if more bytes may be added. Checks the backlog of the whole host in addition to the egress limit,
/// because other processes may share the host's link.
bool SimPort::may_add() {
  const std::uint64_t waiting = network_.send_backlog(host_);
  const bool is_short = egress_.look(waiting, network_.simulation().now());
  return (is_short || !holds_back_) && waiting <= send_buffer_bytes_;
}

std::size_t SimPort::send_burst(std::span<const TxTrain> trains) {
  for (std::size_t i = 0; i < trains.size(); ++i) {
    if (!may_add()) {
      ++counters_.send_refused;
      const std::uint64_t limit = holds_back_ ? egress_.bytes() : send_buffer_bytes_;
      network_.wake_when_drained(owner_, std::min(send_buffer_bytes_, limit) / 2);
      return i;
    }
    ++counters_.system_calls;
    if (fits(trains[i]))
      send(trains[i]);
    else
      ++counters_.send_failed;
  }
  return trains.size();
}

bool SimPort::fits(const TxTrain& train) const {
  const std::uint32_t segment = std::min(train.segment_bytes, train.total_bytes);
  const std::uint32_t count = segment == 0 ? 1 : (train.total_bytes + segment - 1) / segment;
  const std::uint32_t headers = info_.address.ipv6 ? kIpv6AndUdp : kIpv4AndUdp;
  return segment + headers <= info_.mtu && count <= info_.train_segments &&
         train.total_bytes <= info_.train_bytes && train.destination.ipv6 == info_.address.ipv6;
}

void SimPort::send(const TxTrain& train) {
  Address source = info_.address;
  source.port = udp_port(train.source);
  Cursor cursor(train.pieces);
  std::uint32_t left = train.total_bytes;
  do {
    const std::uint32_t size = std::min(left, train.segment_bytes);
    const sim::DatagramId id = network_.allocate(size);
    sim::Datagram& datagram = network_[id];
    datagram.source = source;
    datagram.destination = train.destination;
    datagram.ecn_capable = train.ecn_capable;
    std::byte* to = datagram.memory.get();
    cursor.advance(size, [&to](const std::byte* from, std::size_t part) {
      std::memcpy(to, from, part);
      to += part;
    });
    network_.send(host_, id);
    ++counters_.datagrams_sent;
    left -= size;
  } while (left > 0);
  egress_.added(train.total_bytes);
  counters_.bytes_sent += train.total_bytes;
  ++counters_.trains_sent;
}

std::size_t SimPort::receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) {
  while (slots_.size() < out.size()) slots_.push_back(std::make_unique<Slot>());
  std::size_t count = 0;
  while (count < out.size() && !ready_.empty()) {
    Flow& flow = *flows_[value_of(ready_.front())];
    ready_.pop_front();
    // A driver that reads until the socket is empty must ask the planner before it knows whether the socket
    // is empty. This port does the same.
    for (std::uint32_t ahead = 0; count < out.size(); ++ahead) {
      Slot& slot = *slots_[count];
      const std::size_t planned =
          flow.flow == kSharedFlow
              ? 0
              : planner.plan(flow.flow, ahead, std::span(slot.pieces).first(kMostPieces));
      ++counters_.system_calls;
      drop_empty(flow);
      if (flow.queue.empty()) break;
      out[count++] = take(flow, mergeable(flow), std::span(slot.pieces).first(planned), slot);
    }
    if (!flow.queue.empty()) ready_.push_back(flow.flow);
  }
  return count;
}

// Drops the empty datagrams at the front of the queue. They are counted and not returned, because they carry
// nothing for the fabric.
void SimPort::drop_empty(Flow& flow) {
  while (!flow.queue.empty() && network_[flow.queue.front()].size == 0) {
    network_.release(flow.queue.front());
    flow.queue.pop_front();
    ++counters_.datagrams_received;
    ++counters_.trains_received;
  }
}

// Returns how many datagrams generic receive offload would merge. Merged datagrams have the same source, the
// same ECN marks and the same size; only the last datagram may be shorter.
std::size_t SimPort::mergeable(const Flow& flow) const {
  const sim::Datagram& first = network_[flow.queue.front()];
  std::size_t count = 1;
  std::size_t bytes = first.size;
  while (count < flow.queue.size() && count < info_.receive_train_segments) {
    const sim::Datagram& next = network_[flow.queue[count]];
    bytes += next.size;
    if (next.source != first.source || next.size > first.size || next.size == 0 || bytes > kMostMergedBytes ||
        next.congestion_experienced != first.congestion_experienced)
      break;
    ++count;
    if (next.size < first.size) break;
  }
  return count;
}

RxTrain SimPort::take(Flow& flow, std::size_t count, std::span<iovec> scatter_list, Slot& slot) {
  const sim::Datagram& first = network_[flow.queue.front()];
  RxTrain train{.flow = flow.flow,
                .source = first.source,
                .pieces = {},
                .segment_bytes = first.size,
                .total_bytes = 0,
                .congestion_experienced = first.congestion_experienced,
                .planned = !scatter_list.empty()};
  for (std::size_t i = 0; i < count; ++i) train.total_bytes += network_[flow.queue[i]].size;

  // Shorten the scatter list to the bytes that were received. If it is too small for them, the other bytes go
  // to the port's own memory.
  std::size_t used = 0, room = 0;
  for (; used < scatter_list.size() && room < train.total_bytes; ++used) {
    scatter_list[used].iov_len = std::min(scatter_list[used].iov_len, train.total_bytes - room);
    room += scatter_list[used].iov_len;
  }
  if (room < train.total_bytes || used == 0) {
    if (slot.memory.size() < train.total_bytes - room) slot.memory.resize(train.total_bytes - room);
    slot.pieces[used++] = {slot.memory.data(), train.total_bytes - room};
  }
  train.pieces = std::span(slot.pieces).first(used);

  Cursor cursor(train.pieces);
  for (std::size_t i = 0; i < count; ++i) {
    const sim::DatagramId id = flow.queue.front();
    flow.queue.pop_front();
    const std::byte* from = network_[id].memory.get();
    cursor.advance(network_[id].size, [&from](std::byte* to, std::size_t part) {
      std::memcpy(to, from, part);
      from += part;
    });
    network_.release(id);
  }
  flow.queued_bytes -= train.total_bytes;
  counters_.datagrams_received += count;
  counters_.bytes_received += train.total_bytes;
  ++counters_.trains_received;
  return train;
}

}  // namespace rdmc::port
