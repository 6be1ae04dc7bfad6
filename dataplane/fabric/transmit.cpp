// Sending, in the order that the scheduler decides. The order is decided separately for each turn, because
// packets that the port has accepted cannot be reordered.
#include <algorithm>

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

void SoftwareFabric::make_ready(SoftwareQueuePair& queue_pair) {
  const auto* const next = queue_pair.next_to_leave();
  scheduler_.make_ready(queue_pair.slot_, next != nullptr ? std::optional(next->post_order) : std::nullopt);
}

void SoftwareFabric::note_deadline(const SoftwareQueuePair& queue_pair) {
  scheduler_.set_deadline(queue_pair.slot_, queue_pair.connected_->connection.next_deadline());
}

void SoftwareFabric::run_timers(Time now) {
  for (const TransmitScheduler::Slot slot : scheduler_.due(now)) {
    SoftwareQueuePair& queue_pair = *slots_[slot];
    queue_pair.connected_->connection.on_timer(now);
    scheduler_.mark(slot);
    note_deadline(queue_pair);
  }
}

/// Adds the answers of the marked queue pairs to the batch, and then makes these queue pairs ready. The
/// answers leave together with the packets of the first turn. Returns false if the port has no space.
bool SoftwareFabric::transmit_answers(Time now, std::size_t& sent) {
  while (!scheduler_.marked().empty()) {
    SoftwareQueuePair& queue_pair = *slots_[scheduler_.marked().back()];
    if (batch_.room() < kMostAnswers && !batch_.send(port_)) return false;
    auto& connected = *queue_pair.connected_;
    const std::size_t count =
        connected.connection.poll_answers(now, batch_.space(kMostAnswers), port_.egress(now));
    batch_.seal(count, connected.transmit, port_.info(), arrived_);
    sent += count;
    scheduler_.unmark_last();
    note_deadline(queue_pair);
    make_ready(queue_pair);
  }
  return true;
}

std::size_t SoftwareFabric::transmit_turn(SoftwareQueuePair& queue_pair, Time now) {
  auto& connected = *queue_pair.connected_;
  const std::size_t train = connected.packets_per_train;
  const std::size_t packets = std::min(kPacketsPerTurn, kBytesPerTurn / connected.path_mtu);
  auto space = batch_.space(std::max<std::size_t>(packets / train, 1) * train);
  if (const auto other = scheduler_.lowest_ready())
    space = space.first(queue_pair.packets_before(*other, space.size()));
  // If the packets include READ responses, the first work request among them is not known. The oldest work
  // request is then assumed to be the first.
  queue_pair.note_in_batch(connected.connection.next_to_leave().value_or(queue_pair.posted_.head()));
  const std::size_t count = connected.connection.poll_transmit(now, space, port_.egress(now));
  batch_.seal(count, connected.transmit, port_.info(), arrived_);
  note_deadline(queue_pair);
  if (auto* const next = queue_pair.next_to_leave(); next != nullptr)
    next->post_order = scheduler_.had_turn(queue_pair.slot_, next->post_order, count * connected.path_mtu);
  if (count == space.size()) make_ready(queue_pair);
  return count;
}

// A queue pair is no longer ready if it has nothing to send or is not allowed to send. The loop ends when no
// queue pair is ready, or when the port accepts no more packets.
std::size_t SoftwareFabric::transmit(Time now) {
  if (!batch_.empty() && !batch_.send(port_)) return 0;
  std::size_t sent = 0;
  bool port_takes = transmit_answers(now, sent);
  while (port_takes) {
    const auto slot = scheduler_.take_ready();
    if (!slot) break;
    sent += transmit_turn(*slots_[*slot], now);
    port_takes = batch_.empty() || batch_.send(port_);
  }
  return sent;
}

}  // namespace rdmc::fabric
