// Ending an epoch: everyone is told at once who failed, stops its data plane and says which blocks it holds;
// then the survivors that lack some are formed anew. Nobody waits for those states when nobody lacks any.
#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

void Coordinator::end_epoch(Time now) {
  phase_ = Phase::ending;
  judge_at_ = Time::never();
  suspicions_.clear();
  name_failures(now);
  for (Member& member : members_) {
    if (!member.in_epoch) continue;
    member.owes = true;
    expect(member, "stop its data plane", config_.timing.end_timeout, now);
  }
}

/// At an epoch's end, and again for further losses before its successor.
void Coordinator::name_failures(Time now) {
  wire::Envelope envelope;
  envelope.mutable_end()->set_epoch(value_of(epoch_));
  for (const FailedMember& member : unnamed_) store(*envelope.mutable_end()->add_failed(), member);
  unnamed_.clear();
  broadcast(envelope, now);
}

void Coordinator::on_ended(Member& member, const wire::Ended& ended, Time now) {
  const Epoch epoch{ended.epoch()};
  if (epoch > epoch_ || (epoch == epoch_ && phase_ < Phase::ending && phase_ != Phase::choosing))
    return broken_protocol(member, "sent Ended out of turn", now);
  if (epoch < epoch_) {
    ++counters_.late_messages;
    return;
  }
  if (member.delivery != Delivery::none && !member.owes) return;  // nothing is asked of it any more
  if (!member.owes) return broken_protocol(member, "sent Ended twice", now);
  member.state = to_bytes(ended.state());
  member.owes = false;
  settle(member);
  if (ended.has_report() && member.delivery == Delivery::none) take_report(member, ended.report(), now);
}

}  // namespace rdmc::session
