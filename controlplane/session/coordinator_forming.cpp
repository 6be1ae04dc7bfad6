// The phase of forming an epoch. The application chooses the parameters, every member sends its blobs, every
// member becomes ready, and the coordinator sends Start. If a member is lost during this phase, the epoch
// ends, in the same way as after a later loss.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

/// Asks the application for the parameters of the next epoch. If no member lacks data any more, begins the
/// last commits instead.
void Coordinator::choose(Time now) {
  choose_again_ = false;
  if (phase_ == Phase::joining && expected_) {
    // If one survivor knows the report, all survivors must get it, because this process may die too.
    tell_expected(now);
    for (Member& member : members_)
      if (member.standing == Standing::active && member.delivery == Delivery::reported)
        judge_report(member, now);
  }
  choose_by_ = Time::never();
  if (!is_wanting()) {
    phase_ = Phase::completing;
    for (Member& member : members_)
      if (std::exchange(member.owes, false)) settle(member);
    return;
  }
  find_far();
  ParametersNeeded needed;
  for (const Member& member : members_) {
    if (member.standing == Standing::active)
      needed.candidates.push_back(
          {member.spec.member, member.state, member.delivery == Delivery::none, member.is_straggler});
  }
  candidate_ = Epoch{std::max(value_of(candidate_), value_of(epoch_)) + 1};
  needed.epoch = candidate_;
  phase_ = Phase::choosing;
  choose_by_ = now + config_.timing.application_timeout;
  outputs_.emplace_back(std::move(needed));
}

void Coordinator::form(Epoch epoch, Bytes parameters, Time now, MemberId source,
                       const std::vector<MemberId>& order) {
  const Member* first = find(source);
  const bool sourceless = first == nullptr || first->standing != Standing::active;
  if (phase_ != Phase::choosing || epoch != candidate_ || sourceless) return ignore();
  epoch_ = epoch;
  phase_ = Phase::exchanging;
  choose_by_ = Time::never();
  ++counters_.epochs;
  by_rank_.clear();
  wire::Envelope envelope;
  wire::Form& form = *envelope.mutable_form();
  for (Member& member : members_) member.in_epoch = false;
  const auto add = [&](Member& member) {
    member.rank = Rank{static_cast<std::uint32_t>(by_rank_.size())};
    by_rank_.push_back(static_cast<std::size_t>(&member - members_.data()));
    store(*form.add_members(), {member.spec.member, member.rank, member.spec.name, member.spec.address});
    member.in_epoch = member.owes = true;
    member.complete = member.spec.member == source;
    member.probed.reset();
    member.probe_due = 0;
    member.inbox.clear();
    expect(member, "offer its queue pairs", config_.timing.form_timeout, now);
  };
  add(*find(source));
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
  for (Member& member : members_) {
    if (!member.in_epoch) continue;
    form.set_rank(value_of(member.rank));
    send(member, envelope, now);
  }
}

/// Keeps each blob for the member that it is made for. A sender may send at most one blob for each other
/// member.
void Coordinator::on_blobs(Member& member, const wire::Blobs& blobs, Time now) {
  const Epoch epoch{blobs.epoch()};
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::exchanging || !member.in_epoch || !member.owes)
    return broken_protocol(member, "sent Blobs out of turn", now);
  std::vector<bool> seen(by_rank_.size());
  seen[value_of(member.rank)] = true;
  for (const wire::Blob& blob : blobs.blobs()) {
    if (blob.peer() >= seen.size() || seen[blob.peer()])
      return broken_protocol(member, "sent Blobs for members it does not have", now);
    seen[blob.peer()] = true;
    if (Member* const to = at(Rank{blob.peer()})) to->inbox.push_back({member.rank, to_bytes(blob.blob())});
  }
  member.owes = false;
  settle(member);
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
}

void Coordinator::on_ready(Member& member, Epoch epoch, Time now) {
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::connecting || !member.in_epoch || !member.owes)
    return broken_protocol(member, "sent Ready out of turn", now);
  member.owes = false;
  settle(member);
}

void Coordinator::start_epoch(Time now) {
  phase_ = Phase::running;
  begin_watch(now);
  wire::Envelope envelope;
  envelope.mutable_start()->set_epoch(value_of(epoch_));
  broadcast(envelope, now);
}

}  // namespace rdmc::session
