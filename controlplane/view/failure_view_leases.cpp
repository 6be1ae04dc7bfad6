// Leases in a group. They are the leases that this process asks for and grants with its statuses, and the
// leases whose end this process awaits before it serves in a new view. docs/decisions/0090-leases.md shows
// why no two processes serve at the same time.
#include <algorithm>
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {
namespace {

bool has_leases(const View& view) {
  return std::ranges::any_of(view.members, [](const Member& member) { return member.lease > Duration{}; });
}

}  // namespace

/// True if this process asks for a lease in the current view. A process that has proposed a view no longer
/// asks for a lease in the current view, and no longer grants leases in it. The processes that install the
/// proposed view rely on this.
bool FailureView::asks_for_lease() const {
  return state_ == State::member && self_.lease > Duration{} && proposed_in_ != view_.epoch &&
         !gone_.contains(self_.id);
}

bool FailureView::may_grant(MemberId holder) const {
  const Member* const member = view_.find(holder);
  return state_ == State::member && proposed_in_ != view_.epoch && member != nullptr &&
         member->lease > Duration{} && !gone_.contains(holder);
}

/// True if this process must propose a view although nothing else changes. This is the case if it has
/// proposed a view and does not know whether the store will still accept that proposal. It grants no lease
/// until a later view is accepted.
bool FailureView::needs_renewal() const {
  return state_ == State::member && proposed_in_ == view_.epoch && !swap_ && !gone_.contains(self_.id) &&
         has_leases(view_);
}

/// True if the statuses of this process may ask for a lease, grant a lease, end a lease, or end the wait for
/// a lease.
bool FailureView::concerns_leases() const {
  return !exits_.empty() || has_leases(view_);
}

/// Handles the parts of an authenticated status that concern leases. The statuses may arrive in any order.
/// They must be authenticated, because even a forged request would do harm. This process would then grant the
/// lease before the holder really sends the request with this number. The holder would count the term from
/// that later time, so it would hold the lease for longer than this process has granted it.
void FailureView::hear_of_leases(const Status& status) {
  if (!view_.contains(status.from)) return;
  for (const MemberId id : status.exited)
    if (is_on_one_host(status.from, id)) note_exit(id, false);
  if (status.epoch == view_.epoch) {
    for (const Granted& granted : status.granted)
      if (granted.holder == self_.id) lease_.granted(status.from, granted.sequence);
    if (status.asks && may_grant(status.from)) {
      grants_.note(status.from, view_.find(status.from)->lease, clock_);
      std::uint64_t& answered = answers_[status.from];
      answered = std::max(answered, status.sequence);
    }
  }
  grants_.has_installed(status.from, status.epoch);
}

void FailureView::say_of_leases(Status& status) {
  for (const auto& [holder, sequence] : answers_) status.granted.push_back({holder, sequence});
  for (const auto& [id, exit] : exits_)
    if (exit.here && status.exited.size() < 2 * kMaxMembers) status.exited.insert(id);
  status.asks = asks_for_lease();
  if (status.asks) lease_.asked(status.sequence, clock_);
}

/// Begins the leases of a new view. Older members may hold leases that were granted in views without this
/// newcomer, so a newcomer waits for the whole terms of these members. A process that is no newcomer knows
/// which leases it has granted itself.
void FailureView::begin_leases(bool newcomer) {
  for (const Held& held : view_.held)
    if (!is_proven_dead(held.holder)) grants_.note(held.holder, held.remaining, clock_);
  if (newcomer)
    for (const Member& member : view_.members)
      if (member.since < self_.since && member.lease > Duration{} && !is_proven_dead(member.id))
        grants_.note(member.id, member.lease, clock_);
  lease_.begin_view(view_, self_.id);
  answers_.clear();
  earlier_over_ = false;
  if (newcomer && self_.lease > Duration{}) read_store();
}

void FailureView::end_leases() {
  lease_.end();
  answers_.clear();
}

/// Returns the leases for which the members of `proposal` must wait. A joiner that replaces a whole group
/// does not know which leases its members have granted. But a member holds its lease only for
/// Timing::store_fresh after it has read in the store that its view is the current view. After the store has
/// accepted the proposal, no member reads this any more. If the exits of all members were seen, only the
/// leases are left that their view names: these end at the latest when their time has passed once more.
std::vector<Held> FailureView::may_be_held(const View& proposal) const {
  if (state_ == State::member) return grants_.held_outside(proposal, clock_);
  return have_members_exited() ? view_.held : std::vector<Held>{{kAnybody, timing_.store_fresh}};
}

/// True if no member of the known view can hold a lease. This is also so if it has no members: the last one
/// has ended its lease before it left, or it was removed by an operator, and the view names its lease.
bool FailureView::have_members_exited() const {
  return std::ranges::all_of(view_.members, [&](const Member& member) {
    return member.lease == Duration{} || is_proven_dead(member.id);
  });
}

void FailureView::on_exited(MemberId member, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  note_exit(member, true);
  note_gone(member);
  settle();
}

void FailureView::note_exit(MemberId id, bool here) {
  Exit& exit = exits_.try_emplace(id).first->second;
  exit.here = exit.here || here;
  exit.at = local_.now();
  grants_.forget(id);
}

bool FailureView::is_on_one_host(MemberId a, MemberId b) const {
  const auto host_of = [&](MemberId id) -> std::uint64_t {
    const auto peer = peers_.find(id);
    return peer == peers_.end() ? 0 : peer->second.member.host;
  };
  return host_of(a) != 0 && host_of(a) == host_of(b);
}

/// Returns the interval between two statuses. It is at most a quarter of the shortest lease, so that a lease
/// is renewed several times in its term.
Duration FailureView::heartbeat() const {
  Duration interval = timing_.heartbeat;
  for (const Member& member : view_.members)
    if (member.lease > Duration{}) interval = std::min(interval, member.lease / 4);
  return interval;
}

Time FailureView::lease_until() const {
  if (state_ != State::member || self_.lease == Duration{} || confirmed_at_ == Time{}) return Time{};
  return std::min(lease_.granted_until(), confirmed_at_ + timing_.store_fresh);
}

Time FailureView::takeover_at() const {
  return state_ == State::member ? grants_.earlier_over_at(view_.epoch) : Time::never();
}

void FailureView::tend_leases() {
  grants_.forget_over(clock_);
  if (!earlier_over_ && clock_ >= takeover_at()) {
    earlier_over_ = true;
    outputs_.emplace_back(EarlierLeasesOver{view_.epoch});
  }
  const bool holds = clock_ < lease_until();
  if (holds == holds_) return;
  holds_ = holds;
  counters_.leases_lost += holds ? 0 : 1;
  if (holds)
    outputs_.emplace_back(LeaseGained{});
  else
    outputs_.emplace_back(LeaseLost{});
}

/// Returns the time of the next change of a lease, on the driver's clock.
Time FailureView::next_lease_event() const {
  const Time over = earlier_over_ ? Time::never() : takeover_at();
  return holds_ ? std::min(over, lease_until()) : over;
}

}  // namespace rdmc::view
