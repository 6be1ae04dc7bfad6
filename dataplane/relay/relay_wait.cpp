// Finds the transfer that a member waits for, so that the cause of a stall can be found.
#include <algorithm>

#include "dataplane/relay/relay.hpp"

namespace rdmc::relay {
namespace {

/// The least number of due blocks from which the pace of a destination can be judged.
constexpr std::uint64_t kLeastBlocksOfLook = 4;

}  // namespace

/// Returns the earliest scheduled send that waits for something other than an earlier send of this member.
std::optional<Wait> Relay::send_wait() const {
  for (std::uint64_t at = window_.begin(); at < window_.end(); ++at) {
    const SendWindow::Send& send = window_[at];
    if (send.state == SendWindow::State::done) continue;
    const Destination& destination = destinations_[send.destination];
    if (!SendWindow::is_waiting(send)) return Wait{send.step, destination.rank, Wait::For::link};
    if (send.state == SendWindow::State::omitted || holds(send.block)) {
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

/// Returns the number of writes to a destination that have not completed and whose block has arrived.
std::uint64_t Relay::backlog_of(std::uint32_t destination) const {
  const std::uint64_t newest = schedule_.is_root() ? written_ : reached_;
  std::uint64_t backlog = 0;
  for (std::uint64_t at = window_.begin(); at < window_.end(); ++at) {
    const SendWindow::Send& send = window_[at];
    backlog += send.destination == destination && send.state != SendWindow::State::done &&
               send.block < newest && holds(send.block);
  }
  return backlog;
}

// On a long path many writes are in flight, but their number does not grow from one interval to the next. So
// the share of the due blocks that were acknowledged in an interval does not depend on the path's length.
std::vector<Rank> Relay::find_lagging() {
  std::vector<Rank> found;
  if (!memory_ || cancelled_) return found;
  const std::uint64_t slots = memory_->slots;
  for (std::uint32_t i = 0; i < destinations_.size(); ++i) {
    Destination& destination = destinations_[i];
    if (destination.is_straggler) continue;
    const std::uint64_t backlog = backlog_of(i);
    const std::uint64_t due = destination.writes_done + backlog;
    const std::uint64_t more = due - std::min(due, destination.due_before);
    if (more >= std::max(kLeastBlocksOfLook, slots / 32)) {
      const std::uint64_t taken = destination.writes_done - destination.done_before;
      destination.falls_behind = taken * 4 < more * 3;
      destination.due_before = due;
      destination.done_before = destination.writes_done;
    }
    if (backlog > slots * 3 / 8 || (destination.falls_behind && backlog > slots / 8))
      found.push_back(destination.rank);
  }
  return found;
}

}  // namespace rdmc::relay
