#include "controlplane/store/caspaxos/proposer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rdmc::store {
namespace {

Duration doubled(Duration first, int times, Duration most) {
  Duration doubled = first;
  for (int i = 0; i < times && doubled < most; ++i) doubled = doubled * 2;
  return std::min(doubled, most);
}

}  // namespace

Duration Ballots::pause(Duration most) {
  return nanoseconds(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.ns) + 1)));
}

Proposer::Proposer(std::uint64_t number, std::string name, Change change, Ballots& ballots)
    : number_(number), name_(std::move(name)), change_(std::move(change)), ballots_(ballots) {}

void Proposer::begin(const Configuration& configuration, Time now) {
  if (done_ || configuration == configuration_) return;
  configuration_ = configuration;
  quick_ = true;
  begin_attempt(now);
}

void Proposer::begin_attempt(Time now) {
  complaint_.clear();
  if (!change_ && std::exchange(quick_, false))
    return send(Phase::querying, Query{name_, configuration_.epoch}, now);
  prepare(now);
}

void Proposer::prepare(Time now) {
  ballot_ = ballots_.next(configuration_.epoch);
  send(Phase::preparing, Prepare{name_, ballot_}, now);
}

void Proposer::send(Phase phase, decltype(Request::body) body, Time now) {
  phase_ = phase;
  request_.emplace(number_ << kRoundBits | (++round_ & ((1 << kRoundBits) - 1)), std::move(body));
  unsent_ = true;
  answers_.clear();
  refusals_.clear();
  conflict_ = false;
  deadline_ = now + doubled(kPatience, attempt_, kMostPatience);
}

const Request* Proposer::take_request() {
  return std::exchange(unsent_, false) ? &*request_ : nullptr;
}

const Request* Proposer::request_for(const Id& acceptor) const {
  const bool open = !done_ && request_ && phase_ != Phase::waiting && configuration_.contains(acceptor) &&
                    !answers_.contains(acceptor) && !refusals_.contains(acceptor);
  return open ? &*request_ : nullptr;
}

void Proposer::pause(Duration most, Time now) {
  phase_ = Phase::waiting;
  unsent_ = false;
  deadline_ = now + ballots_.pause(doubled(most, attempt_, kMostPause));
  ++attempt_;
}

void Proposer::tick(Time now) {
  if (done_ || now < deadline_) return;
  // The answers differ, and no further answers have arrived in time. So the reading continues with the two
  // phases of a change.
  if (phase_ == Phase::querying && heard() >= configuration_.majority()) return prepare(now);
  if (phase_ != Phase::waiting) ++attempt_;
  begin_attempt(now);
}

void Proposer::hear(const Reply& reply, Time now) {
  if (done_ || phase_ == Phase::waiting || !request_ || reply.id != request_->id) return;
  // Each acceptor counts once, and only if the configuration contains its id.
  if (!configuration_.contains(reply.acceptor) || answers_.contains(reply.acceptor) ||
      refusals_.contains(reply.acceptor))
    return;
  if (const auto* const refusal = std::get_if<Refusal>(&reply.body))
    return hear_refusal(reply.acceptor, *refusal, now);
  const auto* const accepted = std::get_if<Accepted>(&reply.body);
  const bool is_answer =
      phase_ == Phase::accepting ? std::holds_alternative<Done>(reply.body) : accepted != nullptr;
  if (!is_answer) return;
  answers_.emplace(reply.acceptor, accepted != nullptr ? *accepted : Accepted{});
  switch (phase_) {
    case Phase::querying: return look_at_readings(now);
    case Phase::preparing: return look_at_promises(now);
    case Phase::accepting:
      if (heard() >= configuration_.majority()) finish(std::move(proposal_));
      return;
    case Phase::waiting: return;
  }
}

void Proposer::hear_refusal(const Id& from, const Refusal& refusal, Time now) {
  refusals_.insert(from);
  if (refusal.reason == Refused::promised) {
    conflict_ = true;
    ballots_.see(refusal.promised);
  }
  if (!refusal.text.empty()) complaint_ = refusal.text;
  if (configuration_.size() - refusals_.size() >= configuration_.majority()) return;
  // The first conflict is normally a conflict with an old promise, for example of an acceptor's earlier life.
  // In this case no other proposer is active, so the next attempt begins without a pause.
  pause(conflict_ && attempt_ == 0 ? Duration{} : kPause, now);
}

/// Ends a reading if a majority has accepted the same proposal of this configuration. Such a proposal was
/// chosen, and no later proposal had been chosen when the request was sent. This is true only for a proposal
/// of this configuration. A proposal of an earlier configuration may have been accepted by only one acceptor,
/// from which all acceptors of this configuration have copied it.
void Proposer::look_at_readings(Time now) {
  for (const auto& [acceptor, accepted] : answers_) {
    const auto alike = std::ranges::count_if(
        answers_, [&](const auto& entry) { return entry.second.ballot == accepted.ballot; });
    if (static_cast<std::size_t>(alike) < configuration_.majority()) continue;
    if (accepted.empty() || accepted.ballot.epoch == configuration_.epoch) return finish(accepted);
  }
  if (heard() + refusals_.size() == configuration_.size() && heard() >= configuration_.majority())
    return prepare(now);
  if (heard() >= configuration_.majority()) deadline_ = std::min(deadline_, now + kAgreeWithin);
}

void Proposer::look_at_promises(Time now) {
  if (heard() < configuration_.majority()) return;
  const auto highest =
      std::ranges::max_element(answers_, {}, [](const auto& entry) { return entry.second.ballot; });
  const Accepted current = highest->second;
  const bool settled =
      current.empty() ||
      (current.ballot.epoch == configuration_.epoch &&
       std::ranges::all_of(answers_, [&](const auto& one) { return one.second.ballot == current.ballot; }));
  propose(current, settled, now);
}

void Proposer::propose(Accepted highest, bool settled, Time now) {
  std::optional<Bytes> next = change_ ? change_(highest) : std::nullopt;
  if (!next && settled) return finish(std::move(highest));
  proposal_ = {ballot_, next ? std::move(*next) : std::move(highest.value)};
  send(Phase::accepting, Accept{name_, proposal_}, now);
}

void Proposer::finish(Accepted result) {
  done_ = true;
  unsent_ = false;
  request_.reset();
  result_ = std::move(result);
}

}  // namespace rdmc::store
