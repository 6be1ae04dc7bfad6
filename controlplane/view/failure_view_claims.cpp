// A joiner that hears no member cannot tell the dead from those that a firewall keeps from it. Before it
// replaces them it asks in the store, where the living look now and then, and waits for an answer: a view is
// taken only from members that neither it nor the store hears.
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

bool FailureView::may_claim() const {
  if (!reachable_ || value_of(view_.epoch) == 0) return false;
  return state_ == State::member || (state_ == State::joining && takeover_);
}

void FailureView::tend_claim() {
  const Time now = local_.now();
  if (claim_ || now < claim_at_ || !may_claim()) return;
  const bool member = state_ == State::member;
  if (!member && now < member_heard_ + timing_.claim_after) {
    claim_at_ = member_heard_ + timing_.claim_after;
    return;
  }
  claim_at_ = now + (member ? timing_.reread : timing_.often);
  const RequestId request = ask(claim_);
  outputs_.push_back(ReadStore{request, StoreEntry::claim});
}

/// What stands. Members take a claim away; a joiner puts one there, and sees when it is taken away.
void FailureView::on_claims(const View& claims) {
  const bool stands = !claims.members.empty();
  if (state_ == State::joining) {
    if (!stands && claimed_since_ != Time::never()) member_heard_ = local_.now();
    if (!stands)
      claimed_since_ = Time::never();
    else if (claimed_since_ == Time::never())
      claimed_since_ = local_.now();
  }
  if (stands != (state_ == State::member)) return;
  if (state_ == State::joining && local_.now() < member_heard_ + timing_.claim_after) return;
  View next{.epoch = view::next(claims.epoch)};
  if (!stands) next.members.push_back(self_);
  ++(stands ? counters_.answers : counters_.claims);
  const RequestId request = ask(claim_);
  outputs_.push_back(SwapStore{request, std::move(next), StoreEntry::claim});
}

}  // namespace rdmc::view
