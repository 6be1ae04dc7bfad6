// The end of an epoch. The coordinator informs every member at once which members have failed. Each member
// stops its data plane, and answers with the blocks that it has. Then the survivors that lack blocks form the
// next epoch. If no member lacks blocks, the coordinator does not wait for the answers.
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

/// Called at the end of an epoch. Called again if further members are lost before the next epoch.
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
  // This member has sent Delivered, so its state is not needed any more.
  if (member.delivery != Delivery::none && !member.owes) return;
  if (!member.owes) return broken_protocol(member, "sent Ended twice", now);
  member.state = to_bytes(ended.state());
  member.owes = false;
  settle(member);
  if (ended.has_report() && member.delivery == Delivery::none) take_report(member, ended.report(), now);
}

}  // namespace rdmc::session
