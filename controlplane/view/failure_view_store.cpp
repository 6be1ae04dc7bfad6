// Requests to the store. At most one reading, one proposal and one request about a liveness query are pending
// at a time. Each request has a time limit, and a pause follows a failure. While the store cannot be reached,
// the view does not change.
#include <algorithm>
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

void FailureView::on_hint(std::optional<Epoch> epoch, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  epoch ? read_if_behind(*epoch) : read_store();
  settle();
}

/// Called when another process or the store shows an epoch. If it is newer than the current view, plans to
/// read the store after a delay. Normally the proposer sends the new view before that.
void FailureView::read_if_behind(Epoch epoch) {
  if (epoch <= view_.epoch) return;
  shown_ = std::max(shown_, epoch);
  behind_at_ = std::min(behind_at_, local_.now() + timing_.behind);
}

/// Begins to wait for an answer to a request, and returns the id of the request.
RequestId FailureView::ask(std::optional<Pending>& pending) {
  pending = Pending{RequestId{++last_request_}, local_.now() + timing_.store_timeout, view_.epoch, clock_};
  return pending->request;
}

/// True if the store shows an older view than this process had when it sent the request. In this case the
/// store has lost data: it may have been restored from a backup, or a node may have lost its disk. The answer
/// is then treated as a failure.
bool FailureView::is_lost(const Pending& pending, const View& shown) {
  if (shown.epoch >= pending.known) return false;
  store_failed({Errc::corrupt, "the store has gone back to an older view"});
  return true;
}

void FailureView::on_read(RequestId request, Result<View> result, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  if (claim_ && claim_->request == request) {
    claim_.reset();
    result ? on_claims(*result) : store_failed(std::move(result.error()));
  } else if (read_ && read_->request == request) {
    const Pending asked = *std::exchange(read_, std::nullopt);
    if (!result) {
      store_failed(std::move(result.error()));
    } else if (!is_lost(asked, *result)) {
      answered();
      if (!view_was_read_) member_heard_ = local_.now();
      dirty_ = dirty_ || !view_was_read_;
      view_was_read_ = true;
      learn(*result);
      confirmed_at_ =
          // At the time of the request, the store had no view later than the current view.
          std::max(confirmed_at_, asked.asked);
    }
  }
  settle();
}

void FailureView::on_swapped(RequestId request, Result<SwapResult> result, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  if (claim_ && claim_->request == request) {
    claim_.reset();
    result ? on_claims(result->current) : store_failed(std::move(result.error()));
  } else if (swap_ && swap_->request == request) {
    const Pending asked = *std::exchange(swap_, std::nullopt);
    if (!result)
      store_failed(std::move(result.error()));
    else if (!is_lost(asked, result->current))
      swapped(*result);
  }
  settle();
}

void FailureView::swapped(const SwapResult& result) {
  answered();
  counters_.conflicts += result.swapped ? 0 : 1;
  const View before = view_;
  learn(result.current);
  dirty_ = true;
  if (!result.swapped || state_ != State::member) return;
  // The proposer sends the new view to every other process, including the members that were removed.
  for (const Member& member : before.members)
    if (!view_.contains(member.id)) tell_agreed(member.address);
  for (const Member& member : view_.members)
    if (member.id != self_.id) tell_agreed(member.address);
}

/// Reads the store as soon as possible. If a reading is already in progress, a second reading follows,
/// because the first reading may miss the change that the caller needs to see.
void FailureView::read_store() {
  if (!reachable_) return;  // The store will be read after the pause.
  read_again_ = read_again_ || read_.has_value();
  read_at_ = local_.now();
}

void FailureView::tend_store() {
  const Time now = local_.now();
  const auto late = [&](const std::optional<Pending>& pending) {
    return pending && now >= pending->deadline;
  };
  bool failed = false;
  for (auto* const pending : {&read_, &swap_, &claim_}) {
    if (!late(*pending)) continue;
    pending->reset();  // From now on the answer to this request is ignored.
    failed = true;
  }
  if (failed) store_failed({Errc::timed_out, "the store has not answered in time"});
  if (now >= behind_at_) {
    behind_at_ = Time::never();
    read_store();
  }
  if (read_ || now < read_at_) return;
  // A minority reads the store often, because its waiting time must consist of time in which the others could
  // use the store.
  const bool often = state_ == State::joining || (minority_ && wanted_since_ != Time::never());
  const Duration again = asks_for_lease() ? timing_.lease_reread : timing_.reread;
  read_at_ = now + (often ? timing_.often : again);
  const RequestId request = ask(read_);
  outputs_.push_back(ReadStore{request, StoreEntry::view});
}

void FailureView::answered() {
  backoff_ = {};
  if (std::exchange(read_again_, false)) read_at_ = local_.now();
  if (std::exchange(reachable_, true)) return;
  dirty_ = true;
  // This process is in a minority. The members that it would remove may have lost the store too, and may ask
  // the store again later than this process does. So the waiting time of this process begins only two store
  // time limits from now.
  if (minority_ && wanted_since_ != Time::never()) wanted_since_ = local_.now() + timing_.store_timeout * 2;
  outputs_.push_back(StoreFound{});
}

void FailureView::store_failed(Error cause) {
  ++counters_.store_failures;
  dirty_ = true;
  backoff_ = std::clamp(backoff_ * 2, timing_.store_backoff, timing_.store_timeout);
  read_at_ = local_.now() + backoff_;
  if (std::exchange(reachable_, false)) outputs_.push_back(StoreLost{std::move(cause)});
}

}  // namespace rdmc::view
