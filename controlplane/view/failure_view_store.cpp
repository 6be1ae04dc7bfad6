// Asking the store: one reading and one proposal at a time, each with a deadline, and pauses after failures.
// While it can't be reached the view goes on as it is.
#include <algorithm>
#include <utility>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

void FailureView::on_hint(Time clock) {
  if (state_ == State::removed) return;
  local_.advance(clock);
  read_store();
  settle();
}

void FailureView::on_read(RequestId request, Result<View> result, Time clock) {
  if (state_ == State::removed) return;
  local_.advance(clock);
  const bool awaited = read_ && read_->request == request;
  if (awaited) read_.reset();
  if (result) {
    answered();
    if (!view_was_read_) member_heard_ = local_.now();
    dirty_ = dirty_ || !view_was_read_;
    view_was_read_ = true;
    learn(*result);
  } else if (awaited) {
    store_failed(std::move(result.error()));
  }
  settle();
}

void FailureView::on_swapped(RequestId request, Result<SwapResult> result, Time clock) {
  if (state_ == State::removed) return;
  local_.advance(clock);
  const bool awaited = swap_ && swap_->request == request;
  const Epoch proposed = awaited ? swap_->proposed : Epoch{};
  if (awaited) swap_.reset();
  if (result && next(result->current.epoch) < proposed) {
    store_failed({Errc::corrupt, "the store has gone back to an older view"});
  } else if (result) {
    answered();
    counters_.conflicts += result->swapped ? 0 : 1;
    const View before = view_;
    learn(result->current);
    // Who brought it about tells everybody, those too that are out.
    if (result->swapped && state_ == State::member) {
      for (const Member& member : before.members)
        if (!view_.contains(member.id)) tell_agreed(member.address);
      for (const Member& member : view_.members)
        if (member.id != self_.id) tell_agreed(member.address);
    }
    dirty_ = true;
  } else if (awaited) {
    store_failed(std::move(result.error()));
  }
  settle();
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
  if (late(read_) || late(swap_)) {
    if (late(read_)) read_.reset();
    if (late(swap_)) swap_.reset();
    store_failed({Errc::timed_out, "the store has not answered in time"});
  }
  if (read_ || now < read_at_) return;
  read_ = Pending{RequestId{++last_request_}, now + timing_.store_timeout};
  read_at_ = now + (state_ == State::joining ? timing_.join_retry : timing_.reread);
  outputs_.push_back(ReadStore{read_->request});
}

void FailureView::answered() {
  backoff_ = {};
  if (std::exchange(read_again_, false)) read_at_ = local_.now();
  if (std::exchange(reachable_, true)) return;
  dirty_ = true;
  outputs_.push_back(StoreFound{});
}

void FailureView::store_failed(Error cause) {
  ++counters_.store_failures;
  backoff_ = std::clamp(backoff_ * 2, timing_.store_backoff, timing_.store_timeout);
  read_at_ = local_.now() + backoff_;
  if (std::exchange(reachable_, false)) outputs_.push_back(StoreLost{std::move(cause)});
}

}  // namespace rdmc::view
