#include "dataplane/sim/channel.hpp"

#include <algorithm>

namespace rdmc::sim {

void ChannelEnd::send(std::span<const std::byte> bytes) {
  if (closed_ || ended_ || bytes.empty()) return;
  channels_->simulation_.trace().record(channels_->simulation_.now(), TraceKind::channel_sent,
                                        value_of(owner_), value_of(peer()),
                                        digest(bytes.data(), bytes.size()));
  Random& random = channels_->random_;
  const std::size_t cut = random.chance(channels_->options_.split) ? random.below(bytes.size()) : 0;
  if (cut > 0) transmit(bytes.first(cut), false);
  transmit(bytes.subspan(cut), false);
}

void ChannelEnd::close() {
  if (closed_) return;
  closed_ = true;
  transmit({}, true);
}

void ChannelEnd::transmit(std::span<const std::byte> bytes, bool end) {
  Simulation& simulation = channels_->simulation_;
  const Duration delay = channels_->network_.delay(simulation.host(owner_), simulation.host(peer_->owner_));
  Time at = simulation.now() + delay + channels_->options_.extra;
  if (const auto jitter = static_cast<std::uint64_t>(channels_->options_.jitter.ns); jitter > 0)
    at = at + nanoseconds(static_cast<std::int64_t>(channels_->random_.below(jitter)));
  ChannelEnd& to = *peer_;
  to.last_arrival_ = std::max(to.last_arrival_, at);
  to.under_way_.push_back(Piece{to.last_arrival_, {bytes.begin(), bytes.end()}, end});
  if (to.under_way_.size() == 1) simulation.schedule(to.last_arrival_, *channels_, to.index_);
}

std::size_t ChannelEnd::receive(std::vector<std::byte>& out) {
  out.insert(out.end(), arrived_.begin(), arrived_.end());
  const std::size_t count = arrived_.size();
  arrived_.clear();
  return count;
}

Channels::Channels(Network& network, const ChannelOptions& options)
    : network_(network),
      simulation_(network.simulation()),
      options_(options),
      random_(simulation_.random().next()) {
  simulation_.on_kill([this](ProcessId id) { process_killed(id); });
}

ChannelEnd& Channels::add(ProcessId owner) {
  ChannelEnd& end = ends_.emplace_back();
  end.channels_ = this;
  end.index_ = static_cast<std::uint32_t>(ends_.size() - 1);
  end.owner_ = owner;
  return end;
}

std::pair<ChannelEnd*, ChannelEnd*> Channels::connect(ProcessId a, ProcessId b) {
  ChannelEnd& one = add(a);
  ChannelEnd& other = add(b);
  one.peer_ = &other;
  other.peer_ = &one;
  for (ChannelEnd* end : {&one, &other})
    if (simulation_.state(end->owner_) == ProcessState::killed) end->close();
  return {&one, &other};
}

// At most one event for each end is in the event heap. It is for the oldest piece that is in flight to this
// end.
void Channels::on_event(std::uint64_t argument) {
  ChannelEnd& end = ends_[argument];
  const Time now = simulation_.now();
  const bool reached = network_.reaches(simulation_.host(end.peer()), simulation_.host(end.owner_));
  if (!reached) {
    simulation_.faults().add(Fault::partition);
    simulation_.schedule(now + kRetry, *this, argument);
    return;
  }
  while (!end.under_way_.empty() && end.under_way_.front().at <= now) {
    const ChannelEnd::Piece& piece = end.under_way_.front();
    simulation_.trace().record(now, piece.end ? TraceKind::channel_closed : TraceKind::channel_delivered,
                               value_of(end.peer()), value_of(end.owner_),
                               digest(piece.bytes.data(), piece.bytes.size()));
    end.arrived_.insert(end.arrived_.end(), piece.bytes.begin(), piece.bytes.end());
    end.ended_ = end.ended_ || piece.end;
    end.under_way_.pop_front();
  }
  if (!end.under_way_.empty()) simulation_.schedule(end.under_way_.front().at, *this, argument);
  simulation_.wake(end.owner_);
}

void Channels::process_killed(ProcessId id) {
  for (ChannelEnd& end : ends_)
    if (end.owner_ == id) end.close();
}

}  // namespace rdmc::sim
