// The steps from testimony to a proposal, and from an agreed view to its installation.
#include <algorithm>
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

/// Handles a view that the store has now, or has had.
void FailureView::learn(const View& view) {
  counters_.disagreements += view.epoch == view_.epoch && view != view_ ? 1 : 0;
  if (view.epoch <= view_.epoch) return;
  View next = view;  // The copy is made first. So the view is never half changed if memory runs out.
  // A member that was removed must not join again because of a status that it sent as a joiner.
  for (const Member& member : view_.members)
    if (const auto peer = peers_.find(member.id); peer != peers_.end()) peer->second.status.joining.reset();
  const bool newcomer = state_ != State::member;
  view_ = std::move(next);
  member_heard_ = learnt_at_ = local_.now();
  if (shown_ <= view_.epoch) behind_at_ = Time::never();
  dirty_ = true;
  // Processes that still want to join need a status of this process for the new view.
  say_soon_ = std::ranges::any_of(peers_, [&](const auto& entry) { return is_joining(entry.second); });
  wanted_since_ = Time::never();
  for (auto id = gone_.begin(); id != gone_.end();) id = view_.contains(*id) ? id + 1 : gone_.erase(id);
  std::erase_if(address_claims_, [&](const auto& entry) { return !view_.contains(entry.first); });
  if (view_.contains(self_.id)) {
    for (const Member& member : view_.members) {
      if (member.id == self_.id) continue;
      const auto peer = peers_.try_emplace(member.id, Peer{member, nobody_yet_}).first;
      if (peer->second.said_anything) continue;
      // A member that is new to this process gets time to send its first status.
      peer->second.suspicion.restart(listening_now());
      peer->second.silent = false;
      introduce_ourselves();
    }
    self_.since = view_.find(self_.id)->since;
    state_ = State::member;
    begin_leases(newcomer);
    outputs_.push_back(Installed{view_});
    if (leaves_) note_gone(self_.id);
  } else if (state_ == State::member) {
    state_ = State::removed;
    end_leases();
    outputs_.push_back(Removed{view_});
  } else {
    for (const Member& member : view_.members)
      if (const auto [peer, fresh] = peers_.try_emplace(member.id, Peer{member, nobody_yet_}); fresh)
        peer->second.silent = true;  // The member counts as silent until it sends a status.
    introduce_ourselves();
  }
}

void FailureView::note_gone(MemberId id) {
  if (!view_.contains(id) || !gone_.insert(id).second) return;
  if (id == self_.id) end_leases();
  dirty_ = say_soon_ = true;
}

/// Completes leave() for a process that has not joined. Such a process does not need the agreement of others.
/// But if it has proposed a view, it waits for the store's answer, because that view may contain it.
void FailureView::tend_leaving() {
  if (!leaves_ || state_ != State::joining || swap_) return;
  state_ = State::removed;
  outputs_.push_back(Removed{view_});
}

Testimony FailureView::testimony() const {
  Testimony all{
      .self = self_.id, .hears = heard_, .gone = gone_, .doubtful = doubtful_, .returned = returned_};
  for (const MemberId id : heard_) {
    const Peer& peer = peers_.at(id);
    if (peer.said_anything && peer.status.epoch == view_.epoch) all.rows.emplace(id, peer.status.hears);
  }
  return all;
}

void FailureView::evaluate() {
  dirty_ = false;
  if (state_ == State::member) evaluate_as_member();
  if (state_ == State::joining) evaluate_as_joiner();
}

void FailureView::evaluate_as_member() {
  const Testimony words = testimony();
  Judgement judgement = judge(view_, words);
  // The testimony is from the time before this process was stopped, and the others know nothing newer about
  // this process. So this process removes only members that are gone.
  if (is_recovering())
    for (auto id = judgement.removed.begin(); id != judgement.removed.end();)
      id = gone_.contains(*id) ? id + 1 : judgement.removed.erase(id);
  if (!judgement.turn) return want({}, {}, {});
  std::set<Address> taken;
  for (const Member& member : view_.members)
    if (!judgement.removed.contains(member.id)) taken.insert(member.address);
  MemberSet joining;
  for (const MemberId id : heard_) {
    const Peer& peer = peers_.at(id);
    if (is_joining(peer) && taken.size() < kMaxMembers && !taken.contains(peer.member.address) &&
        may_join(view_, words, id, peer.status.hears)) {
      taken.insert(peer.member.address);
      joining.insert(id);
    }
  }
  want(judgement.removed, std::move(joining),
       timing_.stagger * static_cast<std::int64_t>(*judgement.turn) +
           (judgement.minority ? timing_.minority_wait : Duration{}),
       judgement.minority);
}

/// Decides what a joiner wants. A joiner waits until the members admit it, unless no member is left. It forms
/// the group anew, with the joiners that it hears, in two cases: if it knows that all members are dead, or if
/// it has heard no member for a long time.
void FailureView::evaluate_as_joiner() {
  if (!view_was_read_) return;
  MemberSet joining, removed;
  std::set<Address> joining_at{self_.address};
  joining.insert(self_.id);
  for (const MemberId id : heard_) {
    const Peer& peer = peers_.at(id);
    if (is_joining(peer) && peer.status.hears.contains(self_.id) && joining.size() < kMaxMembers &&
        joining_at.insert(peer.member.address).second)
      joining.insert(id);
  }
  // If this process itself listens at the address of a member, that member counts as gone without a question.
  bool all_gone = true;
  for (const Member& member : view_.members) {
    removed.insert(member.id);
    all_gone = all_gone && (gone_.contains(member.id) || view::claims_address_of(member, self_));
  }
  takeover_ = !all_gone;
  const auto turn = std::distance(joining.begin(), joining.find(self_.id));
  want(std::move(removed), std::move(joining),
       timing_.stagger * turn + (all_gone ? Duration{} : timing_.takeover));
}

/// Stores the change that this process would propose after `wait`. If the change grows, its waiting time
/// continues. There is one exception: if this process is in a minority and the set of members to remove has
/// changed, the waiting time begins again.
void FailureView::want(MemberSet removed, MemberSet joining, Duration wait, bool minority) {
  const bool anew = minority && (!minority_ || removed != removed_);
  if (removed.empty() && joining.empty() && !needs_renewal())
    wanted_since_ = Time::never();
  else if (wanted_since_ == Time::never() || anew)
    wanted_since_ = local_.now();
  minority_ = minority;
  if (anew) read_store();
  if (joining.size() > joining_.size()) joiner_at_ = local_.now();
  removed_ = std::move(removed);
  joining_ = std::move(joining);
  wait_ = wait;
}

/// Returns the time at which this process may propose the change. Within limits, the proposal waits for more
/// joiners, and for the decision about a member that has been silent for suspiciously long, because these
/// changes may belong together.
Time FailureView::not_before() const {
  if (state_ == State::joining) {
    const Time at = std::max(wanted_since_, member_heard_) + wait_;
    if (!takeover_) return at;
    return claimed_since_ == Time::never() ? claimed_since_
                                           : std::max(at, claimed_since_ + timing_.claim_stands);
  }
  const Time limit = wanted_since_ + timing_.batch_limit;
  Time at = wanted_since_ + timing_.batch;
  if (removed_.empty()) at = std::min(limit, std::max(wanted_since_, joiner_at_) + timing_.batch_joins);
  for (const auto& [id, peer] : peers_) {
    if (!is_doubtful(peer) || !heard_.contains(id) || removed_.contains(id) || !view_.contains(id)) continue;
    const Time verdict = listening_.to_local(peer.suspicion.suspect_at());
    at = std::max(at, verdict > local_.now() ? std::min(verdict, limit) : limit);
  }
  return at + wait_;
}

void FailureView::propose() {
  if (swap_ || !reachable_) return;
  View proposal{.epoch = next(view_.epoch)};
  for (const Member& member : view_.members)
    if (!removed_.contains(member.id)) proposal.members.push_back(member);
  for (const MemberId id : joining_) {
    Member& joiner = proposal.members.emplace_back(id == self_.id ? self_ : peers_.at(id).member);
    joiner.since = proposal.epoch;
  }
  proposal.held = may_be_held(proposal);
  // If no process could decode the proposal, it would be the last view of the group. So it is not proposed.
  if (!decode_view(encode_view(proposal))) {
    wanted_since_ = Time::never();
    return;
  }
  proposed_in_ = view_.epoch;
  answers_.clear();
  ++counters_.proposals;
  const RequestId request = ask(swap_);
  outputs_.push_back(SwapStore{request, std::move(proposal), StoreEntry::view});
}

}  // namespace rdmc::view
