// Rules about silence. If a process was not running, the silence that it has measured in this time is no
// evidence. Three rules ensure that healthy members are not removed by a process that got no processor time,
// or by the processes that hear it again:
// - Silence counts only in time in which this process has proven that it listened (Listening).
// - A process that was stopped removes no member because of silence until its knowledge is fresh again.
// - A member that is silent for suspiciously long has no vote about other members. A complaint about a
//   process that was heard again only a short time ago does not count.
#include <algorithm>
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

/// Sets the clock. Every input begins with a call of this function.
void FailureView::advance(Time clock) {
  clock_ = clock;
  if (peers_.empty()) listened_at_ = clock_;
  counters_.longest_absence = std::max(counters_.longest_absence, clock_ - listened_at_);
  const std::uint64_t jumps = local_.jumps();
  local_.advance(clock);
  if (local_.jumps() != jumps) note_absence();
}

void FailureView::note_absence() {
  recovered_at_ = listening_now() + timing_.recovery;
  dirty_ = true;
}

void FailureView::on_listened(RequestId request, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  if (request == listen_ && listening_.is_asking()) {
    listened_at_ = clock_;
    if (!listening_.answered(local_.now())) note_absence();
  }
  settle();
}

void FailureView::tend_listening() {
  for (auto& [id, peer] : peers_) peer.silent = peer.silent || peer.suspicion.suspects(listening_.proven());
  if (local_.now() < next_listen()) return;
  listening_.ask(local_.now());
  listen_ = RequestId{++last_request_};
  outputs_.emplace_back(Listen{listen_});
}

/// Returns the time of the next Listen, on the local clock. A Listen is sent at every heartbeat, and when the
/// silence of a peer must be judged.
Time FailureView::next_listen() const {
  if (peers_.empty() || listening_.is_asking()) return Time::never();
  Time next = listening_.last_asked() + heartbeat();
  for (const auto& [id, peer] : peers_)
    if (!peer.silent) next = std::min(next, listening_.to_local(peer.suspicion.suspect_at()));
  return next;
}

/// True while the knowledge of this process is not fresh. The time is measured as listening time, because the
/// process must hear the others before its knowledge is fresh.
bool FailureView::is_recovering() const {
  return listening_.proven() < recovered_at_ || listening_.is_late(local_.now());
}

bool FailureView::is_doubtful(const Peer& peer) const {
  return listening_now() - peer.suspicion.last_heard() > timing_.doubt;
}

/// Finds the processes about which complaints do not count (returned_), and those whose opinions do not count
/// (doubtful_). The result can change by the passing of time alone. It is enough to notice such a change at
/// the next heartbeat.
void FailureView::weigh_words() {
  MemberSet returned, doubtful;
  if (is_recovering()) returned.insert(self_.id);
  for (const auto& [id, peer] : peers_) {
    if (listening_.proven() < peer.recovered_at) returned.insert(id);
    if (!peer.said_anything || is_doubtful(peer)) doubtful.insert(id);
  }
  dirty_ = dirty_ || returned != returned_ || doubtful != doubtful_;
  returned_ = std::move(returned);
  doubtful_ = std::move(doubtful);
}

}  // namespace rdmc::view
