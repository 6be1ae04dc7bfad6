// What a member waits for, so that a stall can be laid at the right door.
#include <algorithm>

#include "dataplane/relay/relay.hpp"

namespace rdmc::relay {

/// The earliest scheduled send that waits for something else than an earlier one of ours.
std::optional<Wait> Relay::send_wait() const {
  for (std::uint64_t at = window_.begin(); at < window_.end(); ++at) {
    const SendWindow::Send& send = window_[at];
    if (send.state == SendWindow::State::done) continue;
    const Destination& destination = destinations_[send.destination];
    if (send.state != SendWindow::State::waiting) return Wait{send.step, destination.rank, Wait::For::link};
    if (holds(send.block)) {
      if (can_write(destination, send.block)) continue;
      return Wait{send.step, destination.rank, Wait::For::room};
    }
    if (schedule_.is_root()) return Wait{send.step, schedule_.rank(), Wait::For::store};
  }
  if (schedule_.is_root() && reached_ < blocks_)
    return Wait{window_.seen(), schedule_.rank(), Wait::For::store};
  return std::nullopt;
}

std::optional<Wait> Relay::wait() const {
  if (!has_length() || !memory_ || cancelled_) return std::nullopt;
  std::optional<Wait> earliest = send_wait();
  const auto consider = [&](const Wait& wait) {
    if (!earliest || wait.step < earliest->step) earliest = wait;
  };
  for (const Source& source : sources_) {
    if (source.receive_step && block_at(*source.receive_step) < source.granted)
      consider({*source.receive_step, source.rank, Wait::For::block});
  }
  const auto slot = [&](const std::vector<bool>& flags) { return flags[released_ % flags.size()]; };
  if (!schedule_.is_root() && released_ < blocks_ && slot(held_) && !slot(consumed_))
    consider({released_ * schedule_.pace().stride, schedule_.rank(), Wait::For::store});
  return earliest;
}

std::vector<Rank> Relay::lagging() const {
  std::vector<Rank> found;
  if (!memory_ || cancelled_) return found;
  const std::uint64_t newest = schedule_.is_root() ? written_ : reached_;
  // Of a ring of few slots more than a quarter may be in flight, and one destination of two gets half of it.
  const std::uint64_t most = std::max(
      memory_->slots / 8, std::min<std::uint64_t>(2 * config_.max_writes_in_flight, memory_->slots * 3 / 8));
  for (std::uint32_t i = 0; i < destinations_.size(); ++i) {
    if (destinations_[i].is_straggler) continue;
    std::uint64_t backlog = 0;
    for (std::uint64_t at = window_.begin(); at < window_.end(); ++at) {
      const SendWindow::Send& send = window_[at];
      backlog += send.destination == i && send.state != SendWindow::State::done && send.block < newest &&
                 holds(send.block);
    }
    if (backlog > most) found.push_back(destinations_[i].rank);
  }
  return found;
}

}  // namespace rdmc::relay
