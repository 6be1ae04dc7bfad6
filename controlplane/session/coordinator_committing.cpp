// The phase of committing. When a participant has every byte, its report is compared with the root's report,
// and then it makes its copy final. Each participant commits as soon as it can, and does not wait for the
// others.
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

/// Handles a Delivered. It is also allowed while the epoch ends, because the member may have sent it before
/// it received End. In this case the Delivered arrives before the member's Ended.
void Coordinator::on_delivered(Member& member, Epoch epoch, std::string_view report, Time now) {
  if (epoch < epoch_ && epoch > Epoch{0}) {
    ++counters_.late_messages;
    return;
  }
  const bool may = phase_ == Phase::running || (phase_ == Phase::ending && member.owes);
  if (epoch != epoch_ || !may || !member.in_epoch || member.delivery != Delivery::none)
    return broken_protocol(member, "sent Delivered out of turn", now);
  ++advance_;
  take_report(member, report, now);
}

/// In each epoch the expected report is known before the last block is sent. So if a member claims that it
/// has everything before the report is known, the claim is false.
void Coordinator::take_report(Member& member, std::string_view report, Time now) {
  if (!expected_) return broken_protocol(member, "says that it has blocks that were not sent", now);
  member.delivery = Delivery::reported;
  member.report = to_bytes(report);
  judge_report(member, now);
}

void Coordinator::judge_report(Member& member, Time now) {
  if (member.report != *expected_)
    return lose(member, {Errc::corrupt, "its copy is not what the root sent"}, Parting::abort, now);
  outputs_.emplace_back(DeliveryReported{member.spec.member, epoch_});
  member.delivery = Delivery::committing;
  expect_commit(member, "commit", config_.timing.commit_timeout, now);
  wire::Envelope envelope;
  envelope.mutable_commit();
  send(member, envelope, now);
}

void Coordinator::on_committed(Member& member, std::string_view report, Time now) {
  if (member.delivery != Delivery::committing)
    return broken_protocol(member, "sent Committed out of turn", now);
  member.delivery = Delivery::committed;
  member.commit_by = Time::never();
  ++advance_;
  conclude(member, Status::ok, {}, to_bytes(report));
}

void Coordinator::expect_report(Bytes report, Time now) {
  if (expected_ || phase_ == Phase::finished) return ignore();
  expected_ = std::move(report);
  tell_expected(now);
}

void Coordinator::tell_expected(Time now) {
  wire::Envelope envelope;
  envelope.mutable_expect()->set_report(std::string(to_view(*expected_)));
  for (Member& member : members_)
    if (member.standing == Standing::active) send(member, envelope, now);
}

/// When no member lacks blocks any more, sends Finish to the members that have committed. These members are
/// kept until then, because their blocks may be needed if the root dies.
void Coordinator::release_committed(Time now) {
  if (phase_ != Phase::completing) return;
  for (Member& member : members_) {
    if (member.standing != Standing::active || member.delivery != Delivery::committed) continue;
    wire::Envelope envelope;
    envelope.mutable_finish();
    send(member, envelope, now);
    member.in_epoch = false;
    close(member);
  }
}

}  // namespace rdmc::session
