// Committing: a participant has every byte, our application compares its digest, the participant makes the
// copy final. Each commits by itself, as soon as it can; none waits for the others.
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

/// Also right while the epoch ends: a Delivered may cross our End, and comes before the member's Ended.
void Coordinator::on_delivered(Member& member, Epoch epoch, std::string_view report, Time now) {
  if (epoch < epoch_ && epoch > Epoch{0}) {
    ++counters_.late_messages;
    return;
  }
  const bool may = phase_ == Phase::running || (phase_ == Phase::ending && member.owes);
  if (epoch != epoch_ || !may || !member.in_epoch || member.delivery != Delivery::none)
    return broken_protocol(member, "sent Delivered out of turn", now);
  member.delivery = Delivery::reported;
  if (phase_ == Phase::ending) member.in_epoch = member.owes = false;
  expect(member, "get its delivery judged", config_.timing.application_timeout, now);
  got_further(1, now);
  outputs_.emplace_back(DeliveryReported{member.spec.member, epoch, to_bytes(report)});
}

void Coordinator::approve(MemberId id, Time now) {
  Member* member = find(id);
  if (member == nullptr || member->standing != Standing::active || member->delivery != Delivery::reported)
    return ignore();
  member->delivery = Delivery::committing;
  expect(*member, "commit", config_.timing.commit_timeout, now);
  wire::Envelope envelope;
  envelope.mutable_commit();
  send(*member, envelope, now);
  advance(now);
}

void Coordinator::deny(MemberId id, Error cause, Time now) {
  Member* member = find(id);
  if (member == nullptr || member->standing != Standing::active || member->delivery != Delivery::reported)
    return ignore();
  lose(*member, std::move(cause), Parting::abort, now);
  advance(now);
}

void Coordinator::on_committed(Member& member, std::string_view report, Time now) {
  if (member.delivery != Delivery::committing)
    return broken_protocol(member, "sent Committed out of turn", now);
  member.delivery = Delivery::committed;
  settle(member);
  got_further(1, now);
  conclude(member, Status::ok, {}, to_bytes(report));
}

/// A committed member is kept while others may need its blocks, that is until its epoch ends.
void Coordinator::release_committed(Time now) {
  for (Member& member : members_) {
    if (member.standing != Standing::active || member.delivery != Delivery::committed || member.in_epoch)
      continue;
    wire::Envelope envelope;
    envelope.mutable_finish();
    send(member, envelope, now);
    close(member);
  }
}

}  // namespace rdmc::session
