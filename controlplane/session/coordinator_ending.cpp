// Ending an epoch: everyone is told at once who failed, stops its data plane and says which blocks it holds;
// then the survivors that lack some are formed anew. Members that have delivered are done with data.
#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

wire::Envelope end_message(Epoch epoch, const std::vector<FailedMember>& failed) {
  wire::Envelope envelope;
  envelope.mutable_end()->set_epoch(value_of(epoch));
  for (const FailedMember& member : failed) store(*envelope.mutable_end()->add_failed(), member);
  return envelope;
}

}  // namespace

void Coordinator::end_epoch(Time now) {
  phase_ = Phase::ending;
  judge_at_ = Time::never();
  suspicions_.clear();
  broadcast(end_message(epoch_, unnamed_), now);
  for (Member& member : members_) {
    if (!member.in_epoch) continue;
    if (member.delivery == Delivery::none || leads_on()) {  // whoever is whole may be a source again
      member.owes = true;
      expect(member, "stop its data plane", config_.timing.end_timeout, now);
    } else {
      member.in_epoch = false;
    }
  }
  await_local(config_.timing.end_timeout, now);
  tell_local(EndData{epoch_, std::move(unnamed_)});
  unnamed_.clear();
}

/// Further losses between an epoch's end and its successor.
void Coordinator::name_failures(Time now) {
  broadcast(end_message(epoch_, unnamed_), now);
  tell_local(AlsoFailed{epoch_, std::move(unnamed_)});
  unnamed_.clear();
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
  if (!ended.has_report() || member.delivery != Delivery::none) return;
  if (!leads_on()) member.in_epoch = false;
  take_report(member, ended.report(), now);
}

void Coordinator::local_ended(Epoch epoch, Time now) {
  if (phase_ != Phase::ending || epoch != epoch_ || !local_owes_) return ignore();
  local_owes_ = false;
  phase_deadline_ = Time::never();
  advance(now);
}

}  // namespace rdmc::session
