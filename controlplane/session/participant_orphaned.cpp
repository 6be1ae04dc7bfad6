// A participant without a coordinator. It fences the epoch and keeps its data. It follows the survivor that
// becomes the coordinator. If no survivor becomes the coordinator, this participant asks its driver to run a
// coordinator when its own turn has begun. README.md has the rules and the reasons why they are safe.
#include <algorithm>
#include <utility>

#include "controlplane/session/messages.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::session {
namespace {

/// The number of the last turn. All orphans that would have a later turn become coordinators at the time of
/// this turn. Then all of them give up this role, except the orphan with the lowest number.
constexpr std::size_t kLastTurn = 15;

}  // namespace

void Participant::become_orphan(Error cause, Time now) {
  ++counters_.orphaned;
  const bool running = in_epoch();
  phase_ = Phase::orphaned;
  if (delivery_ == Delivery::reported) delivery_ = Delivery::none;
  if (orphan_until_ == Time::never()) orphan_until_ = now + config_.timing.orphan_timeout;
  phase_deadline_ = orphan_until_;
  const bool ranked = std::ranges::find(members_, self_, &MemberInfo::member) != members_.end();
  lead_at_ = ranked ? now + config_.timing.lead_stagger * static_cast<std::int64_t>(turn()) : Time::never();
  if (running) {
    owes_state_ = true;
    EndData end{epoch_, {}};
    const auto lost = std::ranges::find(members_, coordinator_, &MemberInfo::member);
    if (lost != members_.end()) end.failed.push_back({lost->rank, lost->name, cause});
    outputs_.emplace_back(std::move(end));
  }
  cause_ = std::move(cause);
}

/// Returns the number of survivors that have a lower number, up to kLastTurn. Each of them may become the
/// coordinator before this one does.
std::size_t Participant::turn() const {
  const auto before = std::ranges::count_if(members_, [&](const MemberInfo& member) {
    return member.member != kRoot && member.member != coordinator_ && member.member < self_;
  });
  return std::min(static_cast<std::size_t>(before), kLastTurn);
}

void Participant::lead() {
  lead_at_ = Time::never();
  LeadRequested request{{.session = session_, .timing = config_.timing, .leader = self_, .epoch = epoch_},
                        {}};
  // The new coordinator waits only a short time, because a member that cannot be reached must not delay the
  // others. A member that has not noticed the death yet will soon notice it.
  request.config.timing.connect_timeout = config_.timing.suspect_after + seconds(1);
  request.config.timing.greet_timeout = config_.timing.suspect_after;
  for (const auto* list : {&members_, &holders_}) {
    for (const MemberInfo& member : *list) {
      if (member.member != kRoot && (member.member != coordinator_ || coordinator_ == self_))
        request.participants.push_back({member.member, member.name, member.address, {}});
    }
  }
  outputs_.emplace_back(std::move(request));
}

/// Called when no survivor has become the coordinator in time. Ends the job.
void Participant::end_orphan(Time now) {
  lead_at_ = Time::never();
  if (delivery_ == Delivery::committed) return finish(Status::ok, {});
  if (delivery_ == Delivery::committing) {
    detached_ = true;
    phase_deadline_ = now + config_.timing.commit_timeout;
    return;
  }
  enter(Phase::aborting, now);
  outputs_.emplace_back(AbortRequested{});
}

/// Handles the Hello of a new coordinator. Returns false if the Hello is not for this participant, because
/// its session is another one or is unknown here.
bool Participant::on_takeover(const wire::Hello& hello, Time now) {
  if (!was_formed()) {
    wire::Envelope envelope;
    store(*envelope.mutable_failed()->mutable_cause(), {Errc::not_found, "does not know this transfer"});
    send(envelope, now);
    finish(Status::failed, {Errc::not_found, "a survivor of an unknown transfer greeted us"});
    return false;
  }
  if (hello.leader() == 0 || to_view(session_) != hello.session()) {
    broken_protocol("greeted us for another session", now);
    return false;
  }
  coordinator_ = MemberId{hello.leader()};
  bytes_reported_ = group_advance_ = 0;
  return true;
}

/// Sends the answer to the Job of a failover, as soon as the data plane has ended.
void Participant::accept_takeover(Time now) {
  if (!owes_state_) send_accept(now);
}

}  // namespace rdmc::session
