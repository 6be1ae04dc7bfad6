// Joining: a connection, a greeting of equal versions, the job and each participant's answer to it. Who is
// not in by then is left out; the others go on.
#include <algorithm>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

void Coordinator::on_connected(MemberId id, Time now) {
  Member* member = find(id);
  if (member == nullptr || member->standing != Standing::unconnected || phase_ == Phase::idle)
    return ignore();
  member->standing = Standing::greeting;
  member->last_heard = now;
  expect(*member, "greet", config_.timing.greet_timeout, now);
  wire::Envelope envelope;
  wire::Hello& hello = *envelope.mutable_hello();
  hello.set_version(kProtocolVersion);
  hello.set_session(std::string(to_view(config_.session)));
  hello.set_heartbeat_interval_ns(static_cast<std::uint64_t>(config_.timing.heartbeat_interval.ns));
  hello.set_suspect_after_ns(static_cast<std::uint64_t>(config_.timing.suspect_after.ns));
  hello.set_leader(value_of(config_.leader));
  send(*member, envelope, now);
}

void Coordinator::on_welcome(Member& member, const wire::Welcome& welcome, Time now) {
  if (member.standing != Standing::greeting) return broken_protocol(member, "sent Welcome out of turn", now);
  if (welcome.version() != kProtocolVersion) {
    Error cause{Errc::version_mismatch, "speaks version " + std::to_string(welcome.version()) +
                                            " of the session protocol, not " +
                                            std::to_string(kProtocolVersion)};
    if (!welcome.agent().empty()) cause.what += " (" + printable(welcome.agent()) + ")";
    return lose(member, std::move(cause), Parting::dismiss, now);
  }
  if (leads_on()) candidate_ = std::max(candidate_, Epoch{welcome.epoch()});
  member.standing = Standing::deciding;
  expect(member, "answer the job", config_.timing.job_timeout, now);
  wire::Envelope envelope;
  envelope.mutable_job()->set_description(std::string(to_view(member.spec.job)));
  send(member, envelope, now);
}

void Coordinator::set_address(MemberId id, std::string address) {
  if (Member* member = find(id)) member->spec.address = std::move(address);
}

void Coordinator::on_accept(Member& member, const wire::Accept& accept, Time now) {
  if (member.standing != Standing::deciding) return broken_protocol(member, "sent Accept out of turn", now);
  member.standing = Standing::active;
  member.state = to_bytes(accept.state());
  settle(member);
  if (leads_on()) take_over(member, accept, now);
}

}  // namespace rdmc::session
