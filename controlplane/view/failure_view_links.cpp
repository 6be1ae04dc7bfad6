// Reports of bad links. If two members cannot reach each other, both stay in the view while most other
// members reach both of them. The view does not show the bad link, so each of the two members reports it to
// its application.
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

/// True if the link to this member is good in both directions. The member's status counts only if it is about
/// the current view. In an older view the member may not know this process.
bool FailureView::is_link_good(MemberId id, const Peer& peer) const {
  const bool has_said = peer.said_anything && peer.status.epoch == view_.epoch;
  return heard_.contains(id) && (!has_said || peer.status.hears.contains(self_.id));
}

void FailureView::tend_links() {
  if (state_ != State::member) return;
  for (auto& [id, peer] : peers_) {
    const bool is_gone = gone_.contains(id);
    // A member that is gone will soon be removed, unless the view cannot change.
    if (!view_.contains(id) || (is_gone && reachable_)) {
      peer.link_bad_since = Time::never();
      peer.unreachable = peer.unreachable && view_.contains(id);
    } else if (!is_gone && is_link_good(id, peer)) {
      peer.link_bad_since = Time::never();
      if (std::exchange(peer.unreachable, false)) outputs_.push_back(Reachable{id});
    } else {
      peer.link_bad_since = std::min(peer.link_bad_since, local_.now());
      if (peer.unreachable || local_.now() < peer.link_bad_since + timing_.unreachable_after) continue;
      peer.unreachable = true;
      ++counters_.unreachable;
      outputs_.push_back(Unreachable{id, heard_.contains(id), peer.status.hears.contains(self_.id)});
    }
  }
}

/// Returns the next time at which a bad link must be reported, on the local clock.
Time FailureView::next_report() const {
  Time next = Time::never();
  for (const auto& [id, peer] : peers_)
    if (peer.link_bad_since != Time::never() && !peer.unreachable)
      next = std::min(next, peer.link_bad_since + timing_.unreachable_after);
  return next;
}

bool FailureView::reaches(MemberId member) const {
  const auto found = peers_.find(member);
  return found == peers_.end() || !found->second.unreachable;
}

}  // namespace rdmc::view
