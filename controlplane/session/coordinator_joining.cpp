// The phase of joining. It consists of the connection, a greeting with equal versions, the job, and each
// participant's answer to the job. Participants that do not answer in time are left out, and the others
// continue.
#include <algorithm>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

/// The time after which a survivor that has not noticed the death of its coordinator yet is asked again.
constexpr Duration kAskAgain = milliseconds(50);

}  // namespace

void Coordinator::on_connected(MemberId id, Time now) {
  excuse_absence(now);
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
  if (is_new_job() && welcome.epoch() != 0)
    return broken_protocol(member, "was in an epoch of a job that is new", now);
  candidate_ = std::max(candidate_, Epoch{welcome.epoch()});
  member.standing = Standing::deciding;
  expect(member, "answer the job", config_.timing.job_timeout, now);
  wire::Envelope envelope;
  envelope.mutable_job()->set_description(std::string(to_view(member.spec.job)));
  send(member, envelope, now);
}

void Coordinator::set_round_trip(MemberId id, Duration round_trip) {
  if (Member* member = find(id)) member->round_trip = round_trip;
}

void Coordinator::set_address(MemberId id, std::string address) {
  if (Member* member = find(id)) member->spec.address = std::move(address);
}

void Coordinator::on_accept(Member& member, const wire::Accept& accept, Time now) {
  if (member.standing != Standing::deciding) return broken_protocol(member, "sent Accept out of turn", now);
  member.standing = Standing::active;
  member.state = to_bytes(accept.state());
  settle(member);
  const bool knows = accept.has_expected() || accept.has_report() || accept.commits() || accept.committed();
  if (!knows) return;
  if (is_new_job() && member.spec.member != config_.leader)
    return broken_protocol(member, "has a copy of a job that is new", now);
  if (accept.has_expected()) {
    Bytes expected = to_bytes(accept.expected());
    if (expected_ && *expected_ != expected)
      return broken_protocol(member, "was told of another file by the root", now);
    expected_ = std::move(expected);
  }
  if (accept.committed()) {
    member.delivery = Delivery::committed;
    conclude(member, Status::ok, {}, {});
  } else if (accept.commits()) {
    member.delivery = Delivery::committing;
    expect_commit(member, "commit", config_.timing.commit_timeout, now);
  } else if (accept.has_report()) {
    // The report is judged later, when all members have answered.
    member.delivery = Delivery::reported;
    member.report = to_bytes(accept.report());
  }
}

/// Called when the member has refused because it follows another coordinator and has not lost it. There are
/// two possible reasons: the member has not noticed the death of its coordinator yet, or the former
/// coordinator had left out this process.
void Coordinator::on_refused(Member& member, Error cause, Time now) {
  if (cause.code != Errc::would_block) return on_failed(member, std::move(cause), now);
  outputs_.emplace_back(CloseChannel{member.spec.member});
  member.standing = Standing::unconnected;
  member.follows_another = true;
  member.due = "follow";
  member.deadline = member.connect_by;
  member.connect_at = now + kAskAgain;
}

/// True if the number of members that refuse because they follow another coordinator is at least the number
/// of members that follow this coordinator. Then the former coordinator had left out this process.
bool Coordinator::is_left_out() const {
  const auto refuse = std::ranges::count_if(
      members_, [](const Member& m) { return m.standing == Standing::unconnected && m.follows_another; });
  const auto follow =
      std::ranges::count_if(members_, [](const Member& m) { return m.standing == Standing::active; });
  // The participant of this process is not counted.
  return follow - 1 <= refuse;
}

}  // namespace rdmc::session
