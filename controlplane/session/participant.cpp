// The inputs of a participant, joining, the timer, and the ways in which a participant ends. The other files
// handle the forming and running of an epoch, committing, and failover.
#include "controlplane/session/participant.hpp"

#include <algorithm>
#include <utility>

#include "controlplane/session/messages.hpp"

namespace rdmc::session {

Participant::Participant(ParticipantConfig config) : config_(std::move(config)) {}

void Participant::on_connected(Time now) {
  excuse_absence(now);
  if (phase_ != Phase::unconnected && phase_ != Phase::orphaned) return ignore();
  channel_open_ = true;
  lead_at_ = Time::never();
  last_heard_ = now;
  enter(Phase::greeting, now);
}

void Participant::on_message(std::span<const std::byte> bytes, Time now) {
  excuse_absence(now);
  if (!channel_open_) {
    ++counters_.late_messages;
    return;
  }
  ++counters_.messages_received;
  last_heard_ = now;
  const Result<wire::Envelope> envelope = parse_envelope(bytes);
  if (!envelope)
    broken_protocol(envelope.error().what, now);
  else if (phase_ == Phase::aborting)
    ++counters_.late_messages;
  else
    dispatch(*envelope, now);
}

void Participant::dispatch(const wire::Envelope& envelope, Time now) {
  const auto body = envelope.body_case();
  if ((phase_ == Phase::greeting) != (body == wire::Envelope::kHello))
    return broken_protocol(std::string("sent ").append(name(envelope)).append(" out of turn"), now);
  switch (body) {
    case wire::Envelope::kHello: return on_hello(envelope.hello(), now);
    case wire::Envelope::kJob: return on_job(envelope.job().description(), now);
    case wire::Envelope::kForm: return on_form(envelope.form(), now);
    case wire::Envelope::kPeers: return on_peers(envelope.peers(), now);
    case wire::Envelope::kStart: return on_start(Epoch{envelope.start().epoch()}, now);
    case wire::Envelope::kHeartbeat: return on_heartbeat(envelope.heartbeat().advance(), now);
    case wire::Envelope::kProbe: {
      wire::Envelope answer;
      answer.mutable_probe_answer()->set_nonce(envelope.probe().nonce());
      return send(answer, now);
    }
    case wire::Envelope::kEnd: return on_end(envelope.end(), now);
    case wire::Envelope::kCommit: return on_commit(now);
    case wire::Envelope::kFinish: return on_finish(now);
    case wire::Envelope::kExpect: return on_expect(envelope.expect().report(), now);
    case wire::Envelope::kAbort: return leave(load(envelope.abort().cause()), false, now);
    default: return broken_protocol(std::string("sent ").append(name(envelope)).append(" out of turn"), now);
  }
}

void Participant::on_hello(const wire::Hello& hello, Time now) {
  wire::Envelope envelope;
  envelope.mutable_welcome()->set_version(kProtocolVersion);
  envelope.mutable_welcome()->set_agent(printable(config_.agent));
  envelope.mutable_welcome()->set_epoch(value_of(epoch_));
  send(envelope, now);
  if (hello.version() != kProtocolVersion) {
    return finish(Status::failed, {Errc::version_mismatch,
                                   "the coordinator speaks version " + std::to_string(hello.version()) +
                                       " of the session protocol, not " + std::to_string(kProtocolVersion)});
  }
  constexpr auto kShortest = static_cast<std::uint64_t>(milliseconds(1).ns);
  constexpr auto kLongest = static_cast<std::uint64_t>(seconds(60).ns);
  const std::uint64_t interval = hello.heartbeat_interval_ns(), silence = hello.suspect_after_ns();
  if (hello.session().size() != SessionId{}.size() || interval < kShortest || interval > kLongest ||
      silence < 2 * interval || silence > 60 * kLongest)
    return broken_protocol("sent a Hello with bad values", now);
  if (was_formed() || hello.leader() != 0) {
    if (!on_takeover(hello, now)) return;
  }
  config_.timing.heartbeat_interval = nanoseconds(static_cast<std::int64_t>(interval));
  config_.timing.suspect_after = nanoseconds(static_cast<std::int64_t>(silence));
  std::ranges::copy(to_bytes(hello.session()), session_.begin());
  enter(Phase::offering, now);
}

void Participant::on_job(const std::string& description, Time now) {
  if (phase_ != Phase::offering) return broken_protocol("sent Job out of turn", now);
  enter(Phase::deciding, now);
  if (was_formed()) return accept_takeover(now);
  outputs_.emplace_back(JobOffered{session_, to_bytes(description)});
}

void Participant::accept(Bytes state, Time now) {
  if (phase_ != Phase::deciding || was_formed()) return ignore();
  state_ = std::move(state);
  send_accept(now);
}

void Participant::accept_whole(Time now) {
  if (phase_ != Phase::deciding || was_formed()) return ignore();
  delivery_ = Delivery::committed;
  send_accept(now);
}

void Participant::send_accept(Time now) {
  wire::Envelope envelope;
  wire::Accept& accept = *envelope.mutable_accept();
  accept.set_state(std::string(to_view(state_)));
  if (expected_) accept.set_expected(std::string(to_view(*expected_)));
  accept.set_commits(delivery_ == Delivery::committing);
  accept.set_committed(delivery_ == Delivery::committed);
  if (report_ && delivery_ == Delivery::none) {
    accept.set_report(std::string(to_view(*report_)));
    delivery_ = Delivery::reported;
  }
  send(envelope, now);
  enter(Phase::idle, now);
}

void Participant::fail(Error cause, Time now) {
  if (phase_ == Phase::finished || delivery_ == Delivery::committed) return ignore();
  if (phase_ == Phase::aborting) return abort_done(now);
  if (listening()) {
    wire::Envelope envelope;
    store(*envelope.mutable_failed()->mutable_cause(), cause);
    send(envelope, now);
  }
  finish(Status::failed, std::move(cause));
}

void Participant::on_closed(const Error& cause, Time now) {
  excuse_absence(now);
  if (!channel_open_ && phase_ != Phase::unconnected) return;
  channel_open_ = false;
  leave({Errc::peer_failed, "the coordinator's channel closed: " + cause.what}, true, now);
}

/// Called when the coordinator breaks the protocol, or does not continue in time. Sends the cause to the
/// coordinator and ends the job at this participant.
void Participant::give_up(Error cause, Time now) {
  if (listening() && phase_ != Phase::aborting) {
    wire::Envelope envelope;
    Error told = cause;
    if (delivery_ == Delivery::committing) told.what += kMayBeInPlace;
    store(*envelope.mutable_failed()->mutable_cause(), told);
    send(envelope, now);
  }
  close();
  leave(std::move(cause), false, now);
}

void Participant::broken_protocol(std::string_view what, Time now) {
  ++counters_.protocol_errors;
  give_up({Errc::protocol_error, std::string("the coordinator ").append(what)}, now);
}

/// Ends the job at this participant although this process has not failed. If the survivors can continue the
/// job, the participant becomes an orphan instead. A committed copy stays. If a commit has begun, only the
/// application's answer decides the outcome. In all other cases, everything is undone first if the
/// application was offered the job.
void Participant::leave(Error cause, bool coordinator_lost, Time now) {
  if (phase_ == Phase::finished || phase_ == Phase::aborting || detached_) return;
  if (coordinator_lost && was_formed()) return become_orphan(std::move(cause), now);
  if (delivery_ == Delivery::committed) return finish(Status::ok, {});
  if (phase_ < Phase::deciding && !was_formed()) return finish(Status::failed, std::move(cause));
  cause_ = std::move(cause);
  if (delivery_ == Delivery::committing) {
    detached_ = true;
    phase_deadline_ = now + config_.timing.commit_timeout;
    return close();
  }
  enter(Phase::aborting, now);
  outputs_.emplace_back(AbortRequested{});
}

void Participant::abort_done(Time now) {
  if (phase_ != Phase::aborting) return ignore();
  if (channel_open_) {
    wire::Envelope envelope;
    envelope.mutable_abort_done();
    send(envelope, now);
  }
  finish(Status::failed, cause_);
}

void Participant::close() {
  if (channel_open_) outputs_.emplace_back(CloseChannel{kRoot});
  channel_open_ = false;
}

void Participant::finish(Status status, Error cause) {
  close();
  phase_ = Phase::finished;
  phase_deadline_ = lead_at_ = Time::never();
  outputs_.emplace_back(Finished{status, std::move(cause)});
}

/// Called with each input. A call that is late by more than the check interval shows that this process did
/// not run. The messages that arrived in this time are still unread, so this time must not count against the
/// coordinator. Therefore all times are moved by this time.
void Participant::excuse_absence(Time now) {
  const Duration late = now - std::max(next_deadline(), looked_at_);
  if (late <= look_interval(config_.timing)) return;
  for (Time* const time : {&last_heard_, &last_sent_, &last_progress_, &wait_since_, &looked_at_,
                           &phase_deadline_, &lead_at_, &orphan_until_})
    if (*time != Time::never()) *time = *time + late;
}

void Participant::on_timer(Time now) {
  excuse_absence(now);
  if (now < next_deadline()) return;
  looked_at_ = now;
  const bool doubted = std::exchange(doubted_, listening() && now >= doubt_at());
  if (doubted && now - last_heard_ >= config_.timing.suspect_after) {
    close();
    leave({Errc::peer_failed, "the coordinator fell silent for " + to_text(config_.timing.suspect_after)},
          true, now);
  }
  if (now >= lead_at_) lead();
  if (now >= phase_deadline_) {
    if (phase_ == Phase::aborting || detached_) {
      finish(Status::failed, cause_);
    } else if (phase_ == Phase::orphaned) {
      end_orphan(now);
    } else if (was_formed() && phase_ < Phase::deciding) {
      close();
      leave({Errc::timed_out, "the survivor that took over did not go on in time"}, true, now);
    } else if (phase_ == Phase::deciding) {
      fail({Errc::timed_out, "its application did not answer the job in time"}, now);
    } else {
      give_up({Errc::timed_out, "the coordinator did not go on with the job in time"}, now);
    }
  }
  if (!listening()) return;
  if (owes_progress() && now >= last_progress_ + kProgressInterval) send_progress(now);
  if (now >= last_sent_ + config_.timing.heartbeat_interval) {
    wire::Envelope envelope;
    envelope.mutable_heartbeat();
    send(envelope, now);
  }
}

Time Participant::next_deadline() const {
  Time next = std::min(phase_deadline_, lead_at_);
  if (listening()) {
    next = std::min({next, last_sent_ + config_.timing.heartbeat_interval,
                     doubted_ ? last_heard_ + config_.timing.suspect_after : doubt_at()});
    if (owes_progress()) next = std::min(next, last_progress_ + kProgressInterval);
  }
  // During a long wait the timer also expires in between, so that a stop of this process is noticed.
  return next == Time::never() ? next : std::min(next, looked_at_ + config_.timing.heartbeat_interval);
}

void Participant::send(const wire::Envelope& envelope, Time now) {
  outputs_.emplace_back(Send{kRoot, serialize(envelope)});
  last_sent_ = now;
  ++counters_.messages_sent;
}

void Participant::enter(Phase phase, Time now) {
  phase_ = phase;
  looked_at_ = now;
  phase_deadline_ = now + phase_timeout();
}

Duration Participant::phase_timeout() const {
  switch (phase_) {
    case Phase::greeting:
    case Phase::offering: return config_.timing.greet_timeout;
    case Phase::deciding: return config_.timing.job_timeout;
    case Phase::aborting: return config_.timing.abort_timeout;
    default: return config_.timing.patience;
  }
}

std::optional<ParticipantOutput> Participant::poll() {
  if (outputs_.empty()) return std::nullopt;
  ParticipantOutput output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

}  // namespace rdmc::session
