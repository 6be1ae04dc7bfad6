// Asking the store: one reading and one proposal at a time, each with a deadline, and pauses after failures.
// While it can't be reached the view goes on as it is.
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

/// Somebody shows a newer view than ours. As a rule who proposed it is about to bring it.
void FailureView::read_if_behind(Epoch epoch) {
  if (epoch <= view_.epoch) return;
  shown_ = std::max(shown_, epoch);
  behind_at_ = std::min(behind_at_, local_.now() + timing_.behind);
}

/// The request of one that is awaited from now on.
RequestId FailureView::ask(std::optional<Pending>& pending) {
  pending = Pending{RequestId{++last_request_}, local_.now() + timing_.store_timeout, view_.epoch, clock_};
  return pending->request;
}

/// A store that shows an older view than we had when we asked is not the one that we had it from: a backup, a
/// member that has lost its disk. What it says is not believed.
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
      confirmed_at_ = std::max(confirmed_at_, asked.asked);  // it showed no later view than ours is now
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
  // Who brought it about tells everybody, those too that are out.
  for (const Member& member : before.members)
    if (!view_.contains(member.id)) tell_agreed(member.address);
  for (const Member& member : view_.members)
    if (member.id != self_.id) tell_agreed(member.address);
}

/// As soon as possible; anew, when a reading is under way that may have missed what we ask for.
void FailureView::read_store() {
  if (!reachable_) return;  // it is read when its pause is over
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
    pending->reset();  // what it brings yet is not listened to
    failed = true;
  }
  if (failed) store_failed({Errc::timed_out, "the store has not answered in time"});
  if (now >= behind_at_) {
    behind_at_ = Time::never();
    read_store();
  }
  if (read_ || now < read_at_) return;
  // A minority's time is to be one in which the store was there for the others.
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
  // It may have been away to those, too, whom a minority would remove, and they ask it again later than we.
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
