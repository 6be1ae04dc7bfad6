// Committing at a participant: the data is delivered, is found correct, and is made durable under its name.
// This file also handles the end of a job that has succeeded.
#include "controlplane/session/messages.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::session {

void Participant::delivered(Epoch epoch, Bytes report, Time now) {
  const bool may = phase_ == Phase::running || phase_ == Phase::ending;
  if (!may || epoch != epoch_ || delivery_ != Delivery::none) return ignore();
  delivery_ = Delivery::reported;
  wire::Envelope envelope;
  envelope.mutable_delivered()->set_epoch(value_of(epoch));
  envelope.mutable_delivered()->set_report(std::string(to_view(report)));
  send(envelope, now);
}

void Participant::complete(Epoch epoch, Time now) {
  if (phase_ != Phase::running || epoch != epoch_ || delivery_ != Delivery::none) return ignore();
  wire::Envelope envelope;
  envelope.mutable_complete()->set_epoch(value_of(epoch));
  send(envelope, now);
}

/// Keeps the report in case the coordinator dies. The survivors must then know which bytes are correct.
void Participant::on_expect(const std::string& report, Time now) {
  if (phase_ < Phase::idle) return broken_protocol("sent Expect out of turn", now);
  expected_ = to_bytes(report);
}

void Participant::on_commit(Time now) {
  if (delivery_ != Delivery::reported) return broken_protocol("sent Commit out of turn", now);
  delivery_ = Delivery::committing;
  outputs_.emplace_back(CommitRequested{});
}

void Participant::committed(Bytes report, Time now) {
  if (delivery_ != Delivery::committing || phase_ == Phase::finished) return ignore();
  delivery_ = Delivery::committed;
  if (detached_) return finish(Status::ok, {});
  // The next coordinator learns of the commit from the Accept message.
  if (!has_joined()) return;
  wire::Envelope envelope;
  envelope.mutable_committed()->set_report(std::string(to_view(report)));
  send(envelope, now);
}

void Participant::on_finish(Time now) {
  if (delivery_ != Delivery::committed) return broken_protocol("sent Finish out of turn", now);
  finish(Status::ok, {});
}

}  // namespace rdmc::session
