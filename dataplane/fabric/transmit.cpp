// Sending. Answers are sent first, and then the work requests of all queue pairs in post order. The order is
// decided separately for each turn, because packets that the port has accepted cannot be reordered.
#include <algorithm>
#include <functional>

#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/fabric/software_queue_pair.hpp"

namespace rdmc::fabric {
namespace {

/// The maximum number of packets that go to the port in one turn. Together with kBytesPerTurn, it limits a
/// turn to a few trains. One system call still carries many packets, and a new answer waits only for the
/// packets of one turn.
constexpr std::size_t kPacketsPerTurn = 64;

/// An upper limit for the answers of one queue pair in one turn, which are a congestion notification, a NAK
/// and an acknowledgement.
constexpr std::size_t kMostAnswers = 4;

}  // namespace

std::uint32_t SoftwareFabric::packets_per_train(std::uint32_t path_mtu) const {
  const port::PortInfo& port = port_.info();
  const auto packet = static_cast<std::uint32_t>(path_mtu + roce::kXWriteHeaderBytes + trailer_bytes_);
  const auto most = std::min(port.train_segments, static_cast<std::uint32_t>(kPacketsPerTurn));
  return std::clamp(port.train_bytes / packet, 1U, most);
}

void SoftwareFabric::mark_ready(SoftwareQueuePair& queue_pair) {
  if (queue_pair.answers_) return;
  queue_pair.answers_ = true;
  answers_.push_back(&queue_pair);
}

void SoftwareFabric::make_ready(SoftwareQueuePair& queue_pair) {
  queue_pair.ready_ = true;
  ready_.push_back({queue_pair.post_order(), &queue_pair});
  std::ranges::push_heap(ready_, std::greater());
}

void SoftwareFabric::note_deadline(const SoftwareQueuePair& queue_pair) {
  deadlines_.set(queue_pair.slot_, queue_pair.connected_->connection.next_deadline());
}

void SoftwareFabric::run_timers(Time now) {
  due_.clear();
  deadlines_.due(now, due_);
  for (const DeadlineHeap::Slot slot : due_) {
    SoftwareQueuePair& queue_pair = *slots_[slot];
    queue_pair.connected_->connection.on_timer(now);
    mark_ready(queue_pair);
    note_deadline(queue_pair);
  }
}

/// Adds the answers of the marked queue pairs to the batch, and then adds these queue pairs to ready_. The
/// answers leave together with the packets of the first turn. Returns false if the port has no space.
bool SoftwareFabric::transmit_answers(Time now, std::size_t& sent) {
  while (!answers_.empty()) {
    SoftwareQueuePair& queue_pair = *answers_.back();
    if (batch_.room() < kMostAnswers && !batch_.send(port_)) return false;
    auto& connected = *queue_pair.connected_;
    const std::size_t count =
        connected.connection.poll_answers(now, batch_.space(kMostAnswers), port_.egress(now));
    batch_.seal(count, connected.transmit, port_.info(), arrived_);
    sent += count;
    answers_.pop_back();
    queue_pair.answers_ = false;
    note_deadline(queue_pair);
    if (queue_pair.ready_) continue;
    queue_pair.ready_since_ = next_post_order_++;
    make_ready(queue_pair);
  }
  return true;
}

std::size_t SoftwareFabric::transmit_turn(SoftwareQueuePair& queue_pair, Time now) {
  auto& connected = *queue_pair.connected_;
  const std::size_t train = connected.packets_per_train;
  const std::size_t packets = std::min(kPacketsPerTurn, kBytesPerTurn / connected.path_mtu);
  const auto space = batch_.space(std::max<std::size_t>(packets / train, 1) * train);
  // If the packets include READ responses, the first work request among them is not known. The oldest work
  // request is then assumed to be the first.
  queue_pair.note_in_batch(connected.connection.next_to_leave().value_or(queue_pair.posted_.head()));
  const std::size_t count = connected.connection.poll_transmit(now, space, port_.egress(now));
  batch_.seal(count, connected.transmit, port_.info(), arrived_);
  note_deadline(queue_pair);
  queue_pair.had_turn(count * connected.path_mtu);
  if (count == space.size()) make_ready(queue_pair);
  return count;
}

// ready_ is a heap of the queue pairs that may have something to send. A queue pair leaves the heap if it has
// nothing to send or is not allowed to send. Queue pairs outside the heap are not visited. The loop ends when
// the port accepts no more packets.
std::size_t SoftwareFabric::transmit(Time now) {
  if (!batch_.empty() && !batch_.send(port_)) return 0;
  std::size_t sent = 0;
  bool port_takes = transmit_answers(now, sent);
  while (port_takes && !ready_.empty()) {
    std::ranges::pop_heap(ready_, std::greater());
    SoftwareQueuePair& queue_pair = *ready_.back().queue_pair;
    ready_.pop_back();
    queue_pair.ready_ = false;
    sent += transmit_turn(queue_pair, now);
    port_takes = batch_.empty() || batch_.send(port_);
  }
  return sent;
}

}  // namespace rdmc::fabric
