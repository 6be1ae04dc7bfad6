// Forming an epoch: its parameters from our application, everybody's blobs, everybody's readiness, one Start.
// A member lost on the way ends the epoch, formed or not, like one lost later.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

/// Asks for the next epoch's parameters, or, with nobody left who lacks data, moves on to the last commits.
void Coordinator::choose(Time now) {
  choose_again_ = false;
  if (leads_on() && phase_ == Phase::joining) begin_leading(now);
  if (leads_on()) judge_reports(now);
  ParametersNeeded needed;
  for (const Member& member : members_) {
    const bool lacks = member.delivery == Delivery::none;
    if (member.standing != Standing::active || (!lacks && !leads_on())) continue;
    const Rank rank{static_cast<std::uint32_t>(needed.candidates.size() + 1)};
    needed.candidates.push_back({member.spec.member,
                                 {member.spec.member, rank, member.spec.name, member.spec.address},
                                 member.state,
                                 lacks});
  }
  // Leading on without an expected report, those who are whole wait for it, too: our application must decide.
  const auto waits = [this](const Member& m) {
    const bool unjudged = leads_on() && m.delivery == Delivery::reported;
    return m.standing == Standing::active && (m.delivery == Delivery::none || unjudged);
  };
  if (std::ranges::none_of(members_, waits)) {
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

void Coordinator::form(Epoch epoch, Bytes parameters, Time now, MemberId source,
                       const std::vector<MemberId>& order) {
  const Member* first = find(source);
  const bool sourceless = first == nullptr || first->standing != Standing::active;
  if (phase_ != Phase::choosing || epoch != candidate_ || (leads_on() && sourceless)) return ignore();
  epoch_ = epoch;
  phase_ = Phase::exchanging;
  phase_deadline_ = Time::never();
  ++counters_.epochs;
  by_rank_.clear();
  local_inbox_.clear();
  std::vector<MemberInfo> infos;
  const auto add = [&](Member& member) {
    member.rank = Rank{static_cast<std::uint32_t>(by_rank_.size())};
    by_rank_.push_back(static_cast<std::size_t>(&member - members_.data()));
    infos.push_back({member.spec.member, member.rank, member.spec.name, member.spec.address});
    member.in_epoch = member.owes = true;
    member.complete = member.spec.member == source;
    member.probed.reset();
    member.probe_due = 0;
    member.inbox.clear();
    expect(member, "offer its queue pairs", config_.timing.form_timeout, now);
  };
  if (leads_on()) {
    add(*find(source));
  } else {
    by_rank_.push_back(kLocal);
    infos.push_back({kRoot, kRootRank, config_.name, config_.address});
  }
  wire::Envelope envelope;
  wire::Form& form = *envelope.mutable_form();
  std::vector<Member*> receivers;
  for (Member& member : members_) {
    if (member.standing != Standing::active || member.spec.member == source) continue;
    if (member.delivery == Delivery::none)
      receivers.push_back(&member);
    else
      store(*form.add_holders(), {member.spec.member, {}, member.spec.name, member.spec.address});
  }
  std::unordered_map<MemberId, std::size_t> place;
  for (const MemberId member : order) place.emplace(member, place.size());
  std::ranges::stable_sort(receivers, {}, [&](const Member* member) {
    const auto found = place.find(member->spec.member);
    return found == place.end() ? place.size() : found->second;
  });
  for (Member* const member : receivers) add(*member);
  form.set_epoch(value_of(epoch));
  form.set_parameters(std::string(to_view(parameters)));
  for (const MemberInfo& info : infos) store(*form.add_members(), info);
  for (Member& member : members_) {
    if (!member.in_epoch) continue;
    form.set_rank(value_of(member.rank));
    send(member, envelope, now);
  }
  await_local(config_.timing.form_timeout, now);
  tell_local(FormRequested{epoch, kRootRank, std::move(infos), std::move(parameters)});
}

/// Puts each blob where its addressee will get it. False: for a rank that is no peer of `from`, or twice for
/// one.
bool Coordinator::take_blobs(Rank from, const std::vector<PeerBlob>& blobs) {
  std::vector<bool> seen(by_rank_.size());
  seen[value_of(from)] = true;
  for (const PeerBlob& blob : blobs) {
    if (value_of(blob.peer) >= seen.size() || seen[value_of(blob.peer)]) return false;
    seen[value_of(blob.peer)] = true;
    Member* to = at(blob.peer);
    auto& inbox = to != nullptr ? to->inbox : local_inbox_;
    if (to != nullptr || by_rank_[value_of(blob.peer)] == kLocal) inbox.push_back({from, blob.blob});
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
  tell_local(PeersReady{epoch_, std::move(local_inbox_)});
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
  begin_watch(now);
  wire::Envelope envelope;
  envelope.mutable_start()->set_epoch(value_of(epoch_));
  broadcast(envelope, now);
  tell_local(StartData{epoch_});
}

}  // namespace rdmc::session
