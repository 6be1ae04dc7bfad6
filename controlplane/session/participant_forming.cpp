// One epoch of a participant: forming, running and ending it.
#include <algorithm>
#include <utility>

#include "controlplane/session/messages.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::session {

/// True if this epoch has ended already.
bool Participant::stale(Epoch epoch) {
  if (epoch == Epoch{0} || epoch >= epoch_) return false;
  ++counters_.late_messages;
  return true;
}

void Participant::on_form(const wire::Form& form, Time now) {
  const Epoch epoch{form.epoch()};
  const bool source = form.rank() == 0;
  if (phase_ != Phase::idle || (delivery_ != Delivery::none && !source) || epoch <= epoch_)
    return broken_protocol("sent Form out of turn", now);
  FormRequested request{epoch, Rank{form.rank()}, {}, to_bytes(form.parameters())};
  for (const wire::Member& member : form.members()) {
    if (member.rank() != request.members.size())
      return broken_protocol("sent a Form with ranks out of order", now);
    request.members.push_back(load(member));
  }
  // A member that lacks blocks can be a source only after the root has died.
  if ((source && coordinator_ == kRoot && delivery_ == Delivery::none) ||
      form.rank() >= request.members.size())
    return broken_protocol("sent a Form without a rank for us", now);
  if (was_formed() && request.members[form.rank()].member != self_)
    return broken_protocol("sent a Form with a number that is not ours", now);
  epoch_ = epoch;
  rank_ = request.rank;
  self_ = request.members[form.rank()].member;
  members_ = request.members;
  holders_.clear();
  for (const wire::Member& holder : form.holders()) holders_.push_back(load(holder));
  orphan_until_ = Time::never();
  suspected_.clear();
  wait_.reset();
  wait_told_ = false;
  lagging_.clear();
  enter(Phase::blobs, now);
  outputs_.emplace_back(std::move(request));
}

void Participant::blobs_made(Epoch epoch, const std::vector<PeerBlob>& blobs, Time now) {
  if (phase_ != Phase::blobs || epoch != epoch_) return ignore();
  wire::Envelope envelope;
  envelope.mutable_blobs()->set_epoch(value_of(epoch));
  for (const PeerBlob& blob : blobs) {
    wire::Blob& to = *envelope.mutable_blobs()->add_blobs();
    to.set_peer(value_of(blob.peer));
    to.set_blob(std::string(to_view(blob.blob)));
  }
  send(envelope, now);
  enter(Phase::exchanged, now);
}

void Participant::on_peers(const wire::Peers& peers, Time now) {
  const Epoch epoch{peers.epoch()};
  if (stale(epoch)) return;
  if (phase_ != Phase::exchanged || epoch != epoch_) return broken_protocol("sent Peers out of turn", now);
  PeersReady ready{epoch, {}};
  for (const wire::Blob& blob : peers.blobs()) {
    if (blob.peer() >= members_.size() || Rank{blob.peer()} == rank_)
      return broken_protocol("sent Peers that we don't have", now);
    ready.blobs.push_back({Rank{blob.peer()}, to_bytes(blob.blob())});
  }
  enter(Phase::joining, now);
  outputs_.emplace_back(std::move(ready));
}

void Participant::connected(Epoch epoch, Time now) {
  if (phase_ != Phase::joining || epoch != epoch_) return ignore();
  wire::Envelope envelope;
  envelope.mutable_ready()->set_epoch(value_of(epoch));
  send(envelope, now);
  enter(Phase::ready, now);
}

void Participant::on_start(Epoch epoch, Time now) {
  if (stale(epoch)) return;
  if (phase_ != Phase::ready || epoch != epoch_) return broken_protocol("sent Start out of turn", now);
  enter(Phase::running, now);
  outputs_.emplace_back(StartData{epoch});
}

/// As long as any member makes progress, this participant continues to wait. Other members may still need its
/// data, or the data that it lacks may still arrive.
void Participant::on_heartbeat(std::uint64_t advance, Time now) {
  if (advance == group_advance_ || phase_ < Phase::idle || detached_) return;
  group_advance_ = advance;
  phase_deadline_ = now + phase_timeout();
}

void Participant::progress(std::uint64_t bytes_done, Time now) {
  if (phase_ != Phase::running) return ignore();
  if (bytes_done <= bytes_done_) return;
  bytes_done_ = bytes_done;
  if (now >= last_progress_ + kProgressInterval) send_progress(now);
}

void Participant::send_progress(Time now) {
  wire::Envelope envelope;
  envelope.mutable_progress()->set_epoch(value_of(epoch_));
  envelope.mutable_progress()->set_bytes_done(bytes_done_);
  bytes_reported_ = bytes_done_;
  last_progress_ = now;
  send(envelope, now);
}

void Participant::waits(Epoch epoch, const std::optional<relay::Wait>& wait, Time now) {
  if (phase_ != Phase::running || epoch != epoch_) return ignore();
  const bool changed = wait != wait_;
  if (changed) {
    wait_ = wait;
    wait_since_ = now;
  }
  const bool is_source = rank_ == kRootRank;
  const bool lasts = wait_ && (is_source || now - wait_since_ >= kWaitTold);
  if (wait_told_ == lasts && !(wait_told_ && (changed || is_source))) return;
  wait_told_ = lasts;
  wire::Envelope envelope;
  envelope.mutable_wait()->set_epoch(value_of(epoch_));
  store(*envelope.mutable_wait(), lasts ? wait_ : std::nullopt);
  send(envelope, now);
}

void Participant::lags(Epoch epoch, std::vector<Rank> ranks, Time now) {
  if (phase_ != Phase::running || epoch != epoch_) return ignore();
  ranks.resize(std::min(ranks.size(), kMostLags));
  if (ranks == lagging_) return;
  lagging_ = ranks;
  wire::Envelope envelope;
  envelope.mutable_lag()->set_epoch(value_of(epoch_));
  for (const Rank rank : ranks) envelope.mutable_lag()->add_ranks(value_of(rank));
  send(envelope, now);
}

void Participant::suspect(Epoch epoch, Rank rank, std::string_view cause, Time now) {
  if (!in_epoch() || epoch != epoch_ || rank == rank_ || value_of(rank) >= members_.size()) return ignore();
  if (std::ranges::find(suspected_, rank) != suspected_.end()) return;
  suspected_.push_back(rank);
  wire::Envelope envelope;
  envelope.mutable_suspect()->set_epoch(value_of(epoch));
  envelope.mutable_suspect()->set_rank(value_of(rank));
  envelope.mutable_suspect()->set_cause(printable(cause));
  send(envelope, now);
}

void Participant::on_end(const wire::End& end, Time now) {
  const Epoch epoch{end.epoch()};
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ < Phase::idle) return broken_protocol("sent End out of turn", now);
  if (!in_epoch()) {
    outputs_.emplace_back(AlsoFailed{epoch, load_failed(end)});
    return;
  }
  enter(Phase::ending, now);
  owes_state_ = true;
  outputs_.emplace_back(EndData{epoch, load_failed(end)});
}

/// Sends this member's state at the end of an epoch to the coordinator. May also be called while there is no
/// coordinator. In that case the next coordinator gets the state in the Accept message.
void Participant::ended_state(Epoch epoch, Bytes state, std::optional<Bytes> report, Time now) {
  if (!owes_state_ || epoch != epoch_ || phase_ >= Phase::aborting || detached_) return ignore();
  owes_state_ = false;
  state_ = std::move(state);
  report_ = std::move(report);
  if (phase_ == Phase::deciding) return accept_takeover(now);
  if (phase_ != Phase::ending) return;
  wire::Envelope envelope;
  envelope.mutable_ended()->set_epoch(value_of(epoch));
  envelope.mutable_ended()->set_state(std::string(to_view(state_)));
  if (report_ && delivery_ == Delivery::none) {
    envelope.mutable_ended()->set_report(std::string(to_view(*report_)));
    delivery_ = Delivery::reported;
  }
  send(envelope, now);
  enter(Phase::idle, now);
}

}  // namespace rdmc::session
