// Leading on after the root's death: the same coordinator in a survivor's process, whose members keep what
// they have, none need be whole, and all are participants. README.md has the rules.
#include <algorithm>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

/// Between two attempts to win over a survivor that has not noticed the death yet.
constexpr Duration kAskAgain = milliseconds(50);

}  // namespace

/// What the application of the coordinator's process is told as rank 0, which it is not when it leads on.
void Coordinator::tell_local(CoordinatorOutput output) {
  if (!leads_on()) outputs_.push_back(std::move(output));
}

/// It follows somebody: the root, which it has not lost, or another survivor that leads on. Either will pass,
/// or we are the ones that were left out.
void Coordinator::on_takeover_refused(Member& member, Error cause, Time now) {
  if (cause.code != Errc::would_block) return lose(member, std::move(cause), Parting::close, now);
  outputs_.emplace_back(CloseChannel{member.spec.member});
  member.standing = Standing::unconnected;
  member.follows_another = true;
  member.due = "follow";
  member.deadline = member.connect_by;
  member.connect_at = now + kAskAgain;
}

/// Of those who answer, no more follow us than follow somebody else: the coordinator that they have is right.
bool Coordinator::is_left_out() const {
  const auto refuse = std::ranges::count_if(
      members_, [](const Member& m) { return m.standing == Standing::unconnected && m.follows_another; });
  const auto follow =
      std::ranges::count_if(members_, [](const Member& m) { return m.standing == Standing::active; });
  return follow - 1 <= refuse;  // without our own
}

/// Everybody has said what it has and knows: what one knows, all shall, for we may die as well.
void Coordinator::begin_leading(Time now) {
  if (!expected_) return;
  wire::Envelope envelope;
  envelope.mutable_expect()->set_report(std::string(to_view(*expected_)));
  for (Member& member : members_)
    if (member.standing == Standing::active) send(member, envelope, now);
}

void Coordinator::take_over(Member& member, const wire::Accept& accept, Time now) {
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
    take_report(member, accept.report(), now);
  }
}

/// Approves and denies what has been reported, if anybody alive knows what is right.
void Coordinator::judge_reports(Time now) {
  if (!expected_) return;
  for (Member& member : members_) {
    if (member.standing != Standing::active || member.delivery != Delivery::reported) continue;
    if (member.report == *expected_)
      commit(member, now);
    else
      lose(member, {Errc::corrupt, "its copy is not what the root sent"}, Parting::abort, now);
  }
}

}  // namespace rdmc::session
