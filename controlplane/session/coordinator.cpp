// The inputs of the coordinator, the dispatch of messages, and the removal of members. Each other file
// handles the messages of one phase: joining, forming, running, ending or committing.
#include "controlplane/session/coordinator.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "controlplane/session/messages.hpp"

namespace rdmc::session {

Coordinator::Coordinator(CoordinatorConfig config, std::vector<ParticipantSpec> participants)
    : config_(std::move(config)), candidate_(config_.epoch) {
  members_.reserve(participants.size());
  for (ParticipantSpec& spec : participants) {
    [[maybe_unused]] const bool unique = index_.emplace(value_of(spec.member), members_.size()).second;
    assert(unique);
    Member& member = members_.emplace_back();
    member.spec = std::move(spec);
  }
}

void Coordinator::start(Time now) {
  assert(phase_ == Phase::idle);
  phase_ = Phase::joining;
  swept_at_ = next_sweep_ = now;
  for (Member& member : members_) {
    expect(member, "take a connection", config_.timing.connect_timeout, now);
    member.connect_by = member.deadline;
    outputs_.emplace_back(ConnectRequested{member.spec.member});
  }
  advance(now);
}

void Coordinator::on_message(MemberId id, std::span<const std::byte> bytes, Time now) {
  excuse_absence(now);
  Member* member = find(id);
  if (member == nullptr || member->standing == Standing::unconnected || member->standing == Standing::gone) {
    ++counters_.late_messages;
    return;
  }
  ++counters_.messages_received;
  member->last_heard = now;
  if (floods(*member, now)) {
    broken_protocol(*member, "floods its control channel", now);
    return advance(now);
  }
  const Result<wire::Envelope> envelope = parse_envelope(bytes);
  if (!envelope) {
    broken_protocol(*member, envelope.error().what, now);
  } else if (member->standing == Standing::aborting) {
    if (envelope->has_abort_done() || envelope->has_failed())
      close(*member);
    else
      ++counters_.late_messages;
  } else {
    dispatch(*member, *envelope, now);
    // A heartbeat has no other effect, so no action becomes possible.
    if (envelope->has_heartbeat()) return;
  }
  advance(now);
}

void Coordinator::dispatch(Member& member, const wire::Envelope& envelope, Time now) {
  const auto body = envelope.body_case();
  if (body == wire::Envelope::kWelcome) return on_welcome(member, envelope.welcome(), now);
  if (member.standing == Standing::greeting) {
    if (body == wire::Envelope::kFailed && !is_new_job())
      return on_refused(member, load(envelope.failed().cause()), now);
    return broken_protocol(member, "spoke before its Welcome", now);
  }
  switch (body) {
    case wire::Envelope::kAccept: return on_accept(member, envelope.accept(), now);
    case wire::Envelope::kBlobs: return on_blobs(member, envelope.blobs(), now);
    case wire::Envelope::kReady: return on_ready(member, Epoch{envelope.ready().epoch()}, now);
    case wire::Envelope::kHeartbeat: return;
    case wire::Envelope::kProgress:
      return on_progress(member, Epoch{envelope.progress().epoch()}, envelope.progress().bytes_done(), now);
    case wire::Envelope::kSuspect: return on_suspect(member, envelope.suspect(), now);
    case wire::Envelope::kWait: return on_wait(member, envelope.wait(), now);
    case wire::Envelope::kLag: return on_lag(member, envelope.lag(), now);
    case wire::Envelope::kProbeAnswer: return on_probe_answer(member, envelope.probe_answer().nonce());
    case wire::Envelope::kEnded: return on_ended(member, envelope.ended(), now);
    case wire::Envelope::kComplete: return on_complete(member, Epoch{envelope.complete().epoch()}, now);
    case wire::Envelope::kDelivered:
      return on_delivered(member, Epoch{envelope.delivered().epoch()}, envelope.delivered().report(), now);
    case wire::Envelope::kCommitted: return on_committed(member, envelope.committed().report(), now);
    case wire::Envelope::kFailed: return on_failed(member, load(envelope.failed().cause()), now);
    default:
      return broken_protocol(member, std::string("sent ").append(name(envelope)).append(" out of turn"), now);
  }
}

void Coordinator::on_closed(MemberId id, const Error& cause, Time now) {
  excuse_absence(now);
  Member* member = find(id);
  if (member == nullptr || member->standing == Standing::gone) return;
  // This process has closed the channel itself and will connect again.
  if (member->connect_at != Time::never()) return;
  if (member->standing == Standing::aborting) {
    member->standing = Standing::gone;
  } else {
    const bool refused = cause.code == Errc::authentication && member->standing <= Standing::greeting;
    if (refused) conclude(*member, Status::refused, cause, {});
    lose(*member, cause, Parting::gone, now);
  }
  advance(now);
}

void Coordinator::interrupt(Error cause, Time now) {
  if (interrupted_ || phase_ == Phase::finished) return ignore();
  interrupted_ = cause;
  // Every member ends its epoch when it receives Abort or Finish. No member is asked for a state.
  phase_ = Phase::completing;
  choose_by_ = judge_at_ = Time::never();
  const Time patience = now + config_.timing.abort_timeout;
  for (Member& member : members_) {
    member.in_epoch = member.owes = false;
    if (member.standing == Standing::unconnected)
      lose(member, cause, Parting::close, now);
    else if (member.standing == Standing::greeting)
      lose(member, cause, Parting::dismiss, now);
    else if (member.delivery == Delivery::committing)
      member.commit_by = std::min(member.commit_by, patience);
    else if (member.standing <= Standing::active && member.delivery != Delivery::committed)
      lose(member, cause, Parting::abort, now);
  }
  unnamed_.clear();
  advance(now);
}

void Coordinator::send(Member& member, const wire::Envelope& envelope, Time now) {
  outputs_.emplace_back(Send{member.spec.member, serialize(envelope)});
  member.last_sent = now;
  ++counters_.messages_sent;
}

void Coordinator::send_abort(Member& member, const Error& cause, Time now) {
  wire::Envelope envelope;
  store(*envelope.mutable_abort()->mutable_cause(), cause);
  send(member, envelope, now);
}

/// Sends the message to every member of the epoch.
void Coordinator::broadcast(const wire::Envelope& envelope, Time now) {
  for (Member& member : members_)
    if (member.in_epoch) send(member, envelope, now);
}

void Coordinator::close(Member& member) {
  outputs_.emplace_back(CloseChannel{member.spec.member});
  member.standing = Standing::gone;
  member.deadline = member.commit_by = Time::never();
}

/// Removes the member, and informs the other members of its epoch. If the member has begun to commit or has
/// committed, its copy is not undone. It only takes no further part.
void Coordinator::lose(Member& member, Error cause, Parting parting, Time now) {
  const bool commits = member.delivery >= Delivery::committing;
  if (member.in_epoch) unnamed_.push_back({member.rank, member.spec.name, cause});
  if (phase_ == Phase::choosing && member.standing == Standing::active) choose_again_ = true;
  member.in_epoch = member.owes = false;
  member.deadline = Time::never();
  if (parting == Parting::abort && commits) return;
  member.commit_by = Time::never();
  if (!member.has_outcome) {
    Error outcome = cause;
    if (commits) outcome.what += kMayBeInPlace;
    conclude(member, Status::failed, std::move(outcome), {});
  }
  switch (parting) {
    case Parting::gone: member.standing = Standing::gone; return;
    case Parting::dismiss: send_abort(member, cause, now); [[fallthrough]];
    case Parting::close: close(member); return;
    case Parting::abort:
      send_abort(member, cause, now);
      member.standing = Standing::aborting;
      expect(member, "confirm the abort", config_.timing.abort_timeout, now);
  }
}

/// Called when the member has sent Failed, which is its last message. Only the member knows what has happened
/// to its copy, so the cause in this message is final.
void Coordinator::on_failed(Member& member, Error cause, Time now) {
  if (!member.has_outcome) conclude(member, Status::failed, cause, {});
  lose(member, std::move(cause), Parting::close, now);
}

void Coordinator::broken_protocol(Member& member, std::string_view what, Time now) {
  ++counters_.protocol_errors;
  if (member.standing == Standing::aborting) return close(member);
  lose(member, {Errc::protocol_error, std::string(what)}, Parting::dismiss, now);
}

void Coordinator::conclude(Member& member, Status status, Error cause, Bytes report) {
  assert(!member.has_outcome);
  member.has_outcome = true;
  outputs_.emplace_back(MemberFinished{member.spec.member, status, std::move(cause), std::move(report)});
}

void Coordinator::expect(Member& member, std::string_view due, Duration within, Time now) {
  member.due = due;
  member.deadline = now + within;
}

void Coordinator::expect_commit(Member& member, std::string_view due, Duration within, Time now) {
  member.commit_due = due;
  member.commit_by = now + within;
}

void Coordinator::settle(Member& member) {
  member.deadline = Time::never();
}

void Coordinator::advance(Time now) {
  if (phase_ == Phase::idle) return;
  while (step(now)) {
  }
}

/// Takes one action that is possible now. Returns false if no action is possible before the next input.
bool Coordinator::step(Time now) {
  release_committed(now);
  if (!unnamed_.empty()) {
    if (phase_ >= Phase::exchanging && phase_ <= Phase::running)
      end_epoch(now);
    else
      name_failures(now);
    return true;
  }
  switch (phase_) {
    case Phase::joining:
      if (std::ranges::any_of(members_, [](const Member& m) { return m.standing < Standing::active; }))
        return false;
      choose(now);
      return true;
    case Phase::choosing:
      if (!choose_again_) return false;
      choose(now);
      return true;
    case Phase::exchanging:
      if (!ready_in_epoch()) return false;
      route_blobs(now);
      return true;
    case Phase::connecting:
      if (!ready_in_epoch()) return false;
      start_epoch(now);
      return true;
    case Phase::running:
      if (std::ranges::any_of(members_, [](const Member& m) {
            return m.in_epoch && m.delivery == Delivery::none && !m.complete;
          }))
        return false;
      end_epoch(now);
      return true;
    case Phase::ending:
      if (is_wanting() && !ready_in_epoch()) return false;
      choose(now);
      return true;
    case Phase::completing:
      if (std::ranges::any_of(members_, [](const Member& m) { return m.standing != Standing::gone; }))
        return false;
      phase_ = Phase::finished;
      next_sweep_ = Time::never();
      outputs_.emplace_back(JobFinished{interrupted_});
      return false;
    case Phase::idle:
    case Phase::finished: return false;
  }
  return false;
}

/// True if every member of the epoch has given the answer that this phase needs.
bool Coordinator::ready_in_epoch() const {
  return std::ranges::none_of(members_, [](const Member& m) { return m.in_epoch && m.owes; });
}

/// True if a member lacks blocks. Also true if a member has sent a report that cannot be judged, because no
/// living member knows the expected report.
bool Coordinator::is_wanting() const {
  return std::ranges::any_of(members_, [](const Member& m) {
    return m.standing == Standing::active && m.delivery <= Delivery::reported;
  });
}

/// True if the epoch has ended. In this case the message was sent before its sender received End.
bool Coordinator::stale(Epoch epoch) {
  const bool current = epoch == epoch_ && phase_ >= Phase::exchanging && phase_ <= Phase::running;
  if (epoch == Epoch{0} || epoch > epoch_ || current) return false;
  ++counters_.late_messages;
  return true;
}

Coordinator::Member* Coordinator::find(MemberId member) {
  const auto found = index_.find(value_of(member));
  return found == index_.end() ? nullptr : &members_[found->second];
}

/// Returns the member of epoch_ with this rank. Returns nullptr if there is no such rank, or if its member
/// has left the epoch.
Coordinator::Member* Coordinator::at(Rank rank) {
  if (value_of(rank) >= by_rank_.size()) return nullptr;
  Member& member = members_[by_rank_[value_of(rank)]];
  return member.in_epoch ? &member : nullptr;
}

std::optional<CoordinatorOutput> Coordinator::poll() {
  if (outputs_.empty()) return std::nullopt;
  CoordinatorOutput output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

}  // namespace rdmc::session
