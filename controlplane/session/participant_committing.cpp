// Committing at a participant: delivered, approved, durable under its name; and the end of a job that went
// well.
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

void Participant::on_commit(Time now) {
  if (delivery_ != Delivery::reported) return broken_protocol("sent Commit out of turn", now);
  delivery_ = Delivery::committing;
  outputs_.emplace_back(CommitRequested{});
}

void Participant::committed(Bytes report, Time now) {
  if (delivery_ != Delivery::committing || phase_ == Phase::finished) return ignore();
  delivery_ = Delivery::committed;
  if (detached_) return finish(Status::ok, {});
  wire::Envelope envelope;
  envelope.mutable_committed()->set_report(std::string(to_view(report)));
  send(envelope, now);
}

void Participant::on_finish(Time now) {
  if (delivery_ != Delivery::committed) return broken_protocol("sent Finish out of turn", now);
  finish(Status::ok, {});
}

}  // namespace rdmc::session
