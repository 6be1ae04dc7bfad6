// Sending: the ready queue pairs take turns at filling a batch, the batch goes to the port.
#include <algorithm>

#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/fabric/software_queue_pair.hpp"

namespace rdmc::fabric {
namespace {

/// Packets that one queue pair may send before the next has its turn: a few trains, so that several
/// connections share a link evenly and one system call still carries many packets.
constexpr std::size_t kPacketsPerTurn = 64;

}  // namespace

std::uint32_t SoftwareFabric::packets_per_train(std::uint32_t path_mtu) const {
  const port::PortInfo& port = port_.info();
  const auto packet = static_cast<std::uint32_t>(path_mtu + roce::kXWriteHeaderBytes + roce::kIcrcBytes);
  const auto most = std::min(port.train_segments, static_cast<std::uint32_t>(kPacketsPerTurn));
  return std::clamp(port.train_bytes / packet, 1U, most);
}

void SoftwareFabric::mark_ready(SoftwareQueuePair& queue_pair) {
  if (queue_pair.ready_) return;
  queue_pair.ready_ = true;
  ready_.push_back(&queue_pair);
}

void SoftwareFabric::note_deadline(const SoftwareQueuePair& queue_pair) {
  deadlines_.set(value_of(queue_pair.flow_), queue_pair.connected_->connection.next_deadline());
}

void SoftwareFabric::run_timers(Time now) {
  due_.clear();
  deadlines_.due(now, due_);
  for (const DeadlineHeap::Slot slot : due_) {
    SoftwareQueuePair& queue_pair = *by_flow_[slot];
    queue_pair.connected_->connection.on_timer(now);
    mark_ready(queue_pair);
    note_deadline(queue_pair);
  }
}

// A queue of those that may have something: whoever used up its turn goes to the end, whoever has nothing
// leaves. Nobody else is looked at, and of those only as many as the port takes packets from.
std::size_t SoftwareFabric::transmit(Time now) {
  if (!batch_.empty() && !batch_.send(port_)) return 0;
  std::size_t sent = 0;
  std::size_t served = 0;  // at the head of ready_, and gone from there or queued anew
  bool port_takes = true;
  while (port_takes && served < ready_.size()) {
    while (served < ready_.size()) {
      SoftwareQueuePair& queue_pair = *ready_[served];
      auto& connected = *queue_pair.connected_;
      const std::size_t turn = kPacketsPerTurn / connected.packets_per_train * connected.packets_per_train;
      if (batch_.room() < turn) break;
      const auto space = batch_.space(turn);
      const std::size_t count = connected.connection.poll_transmit(now, space);
      batch_.seal(count, connected.transmit, port_.info(), arrived_);
      sent += count;
      ++served;
      queue_pair.ready_ = count == space.size();
      if (queue_pair.ready_) ready_.push_back(&queue_pair);
      note_deadline(queue_pair);
    }
    if (2 * served >= ready_.size()) {
      ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(served));
      served = 0;
    }
    port_takes = batch_.empty() || batch_.send(port_);
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(served));
  return sent;
}

}  // namespace rdmc::fabric
