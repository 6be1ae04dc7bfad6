// Forming an epoch: its parameters from our application, everybody's blobs, everybody's readiness, one Start.
// A member lost on the way ends the epoch, formed or not, like one lost later.
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

/// Asks for the next epoch's parameters, or, with nobody left who lacks data, moves on to the last commits.
void Coordinator::choose(Time now) {
  choose_again_ = false;
  ParametersNeeded needed;
  for (const Member& member : members_) {
    if (member.standing != Standing::active || member.delivery != Delivery::none) continue;
    const Rank rank{static_cast<std::uint32_t>(needed.candidates.size() + 1)};
    needed.candidates.push_back(
        {member.spec.member, {rank, member.spec.name, member.spec.address}, member.state});
  }
  if (needed.candidates.empty()) {
    phase_ = Phase::completing;
    phase_deadline_ = Time::never();
    return;
  }
  candidate_ = Epoch{std::max(value_of(candidate_), value_of(epoch_)) + 1};
  needed.epoch = candidate_;
  phase_ = Phase::choosing;
  phase_deadline_ = now + config_.timing.application_timeout;
  outputs_.emplace_back(std::move(needed));
}

void Coordinator::form(Epoch epoch, Bytes parameters, Time now) {
  if (phase_ != Phase::choosing || epoch != candidate_) return ignore();
  epoch_ = epoch;
  phase_ = Phase::exchanging;
  ++counters_.epochs;
  by_rank_.clear();
  local_inbox_.clear();
  std::vector<MemberInfo> infos{{kRootRank, config_.name, config_.address}};
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    member.in_epoch = member.standing == Standing::active && member.delivery == Delivery::none;
    if (!member.in_epoch) continue;
    by_rank_.push_back(i);
    member.rank = Rank{static_cast<std::uint32_t>(by_rank_.size())};
    member.owes = true;
    member.probed.reset();
    member.probe_due = 0;
    member.inbox.clear();
    expect(member, "offer its queue pairs", config_.timing.form_timeout, now);
    infos.push_back({member.rank, member.spec.name, member.spec.address});
  }
  wire::Envelope envelope;
  wire::Form& form = *envelope.mutable_form();
  form.set_epoch(value_of(epoch));
  form.set_parameters(std::string(to_view(parameters)));
  for (const MemberInfo& info : infos) {
    wire::Member& to = *form.add_members();
    to.set_rank(value_of(info.rank));
    to.set_name(printable(info.name));
    to.set_address(info.address);
  }
  for (Member& member : members_) {
    if (!member.in_epoch) continue;
    form.set_rank(value_of(member.rank));
    send(member, envelope, now);
  }
  await_local(config_.timing.form_timeout, now);
  outputs_.emplace_back(FormRequested{epoch, kRootRank, std::move(infos), std::move(parameters)});
}

/// Puts each blob where its addressee will get it. False: for a rank that is no peer of `from`, or twice for
/// one.
bool Coordinator::take_blobs(Rank from, const std::vector<PeerBlob>& blobs) {
  std::vector<bool> seen(by_rank_.size() + 1);
  seen[value_of(from)] = true;
  for (const PeerBlob& blob : blobs) {
    if (value_of(blob.peer) >= seen.size() || seen[value_of(blob.peer)]) return false;
    seen[value_of(blob.peer)] = true;
    Member* to = at(blob.peer);
    auto& inbox = to != nullptr ? to->inbox : local_inbox_;
    if (to != nullptr || blob.peer == kRootRank) inbox.push_back({from, blob.blob});
  }
  return true;
}

void Coordinator::on_blobs(Member& member, const wire::Blobs& blobs, Time now) {
  const Epoch epoch{blobs.epoch()};
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::exchanging || !member.in_epoch || !member.owes)
    return broken_protocol(member, "sent Blobs out of turn", now);
  std::vector<PeerBlob> values;
  for (const wire::Blob& blob : blobs.blobs()) values.push_back({Rank{blob.peer()}, to_bytes(blob.blob())});
  if (!take_blobs(member.rank, values))
    return broken_protocol(member, "sent Blobs for members it does not have", now);
  member.owes = false;
  settle(member);
}

void Coordinator::local_blobs(Epoch epoch, const std::vector<PeerBlob>& blobs, Time now) {
  if (phase_ != Phase::exchanging || epoch != epoch_ || !local_owes_) return ignore();
  if (!take_blobs(kRootRank, blobs))
    return interrupt(
        {Errc::invalid_argument, "the root's data plane made blobs for members that don't exist"}, now);
  local_owes_ = false;
  phase_deadline_ = Time::never();
  advance(now);
}

void Coordinator::route_blobs(Time now) {
  phase_ = Phase::connecting;
  for (Member& member : members_) {
    if (!member.in_epoch) continue;
    wire::Envelope envelope;
    wire::Peers& peers = *envelope.mutable_peers();
    peers.set_epoch(value_of(epoch_));
    for (const PeerBlob& blob : member.inbox) {
      wire::Blob& to = *peers.add_blobs();
      to.set_peer(value_of(blob.peer));
      to.set_blob(std::string(to_view(blob.blob)));
    }
    member.inbox.clear();
    member.owes = true;
    expect(member, "become ready", config_.timing.form_timeout, now);
    send(member, envelope, now);
  }
  await_local(config_.timing.form_timeout, now);
  outputs_.emplace_back(PeersReady{epoch_, std::move(local_inbox_)});
  local_inbox_.clear();
}

void Coordinator::on_ready(Member& member, Epoch epoch, Time now) {
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::connecting || !member.in_epoch || !member.owes)
    return broken_protocol(member, "sent Ready out of turn", now);
  member.owes = false;
  settle(member);
}

void Coordinator::local_ready(Epoch epoch, Time now) {
  if (phase_ != Phase::connecting || epoch != epoch_ || !local_owes_) return ignore();
  local_owes_ = false;
  phase_deadline_ = Time::never();
  advance(now);
}

void Coordinator::start_epoch(Time now) {
  phase_ = Phase::running;
  stall_deadline_ = now + config_.timing.stall_after;
  wire::Envelope envelope;
  envelope.mutable_start()->set_epoch(value_of(epoch_));
  broadcast(envelope, now);
  outputs_.emplace_back(StartData{epoch_});
}

}  // namespace rdmc::session
