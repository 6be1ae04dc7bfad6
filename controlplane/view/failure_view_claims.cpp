// Liveness queries. If a joiner hears no member, there are two possible reasons: the members are dead, or a
// firewall separates them from the joiner. Before the joiner replaces the members, it writes a query to the
// store, and waits for an answer. Living members check the store for queries at intervals. So a group is
// replaced only if its members reach neither the joiner nor the store.
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

/// Handles the content of the liveness query in the store. A member removes a query. A joiner writes a query,
/// and notices when the query is removed.
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
