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

void SoftwareFabric::run_timers(Time now) {
  for (SoftwareQueuePair* queue_pair : by_flow_) {
    if (!is_connected(queue_pair) || queue_pair->connected_->connection.next_deadline() > now) continue;
    queue_pair->connected_->connection.on_timer(now);
    mark_ready(*queue_pair);
  }
}

std::size_t SoftwareFabric::transmit(Time now) {
  if (!batch_.empty() && !batch_.send(port_)) return 0;
  std::size_t sent = 0;
  while (!ready_.empty()) {
    // Whoever still has more keeps its place behind those that have waited; whoever has nothing leaves the
    // list.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      SoftwareQueuePair& queue_pair = *ready_[i];
      auto& connected = *queue_pair.connected_;
      const std::size_t turn = kPacketsPerTurn / connected.packets_per_train * connected.packets_per_train;
      if (batch_.room() < turn) {
        ready_[kept++] = &queue_pair;
        continue;
      }
      const auto space = batch_.space(turn);
      const std::size_t count = connected.connection.poll_transmit(now, space);
      batch_.seal(count, connected.transmit, port_.info(), arrived_);
      sent += count;
      if (count == space.size()) {
        ready_[kept++] = &queue_pair;
      } else {
        queue_pair.ready_ = false;
      }
    }
    ready_.resize(kept);
    if (kept > 1) std::rotate(ready_.begin(), ready_.begin() + 1, ready_.end());
    if (batch_.empty()) break;
    if (!batch_.send(port_)) break;
  }
  return sent;
}

}  // namespace rdmc::fabric
