// Time: one sweep over all members a few times per heartbeat looks at everything that can be due, so that the
// cost of a deadline does not grow with the number of members.
#include <algorithm>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {

Duration Coordinator::tick() const {
  return look_interval(config_.timing);
}

Time Coordinator::next_deadline() const {
  return next_sweep_;
}

void Coordinator::on_timer(Time now) {
  if (now < next_sweep_) return;
  // If we were not running ourselves, the others' heartbeats wait unread: our absence is not their silence.
  const Duration late = now - next_sweep_;
  if (late > tick())
    for (Member& member : members_) member.last_heard = std::min(now, member.last_heard + late);
  if (late > config_.timing.suspect_after / 4) {
    for (Member& member : members_) {
      member.quiet_since = std::min(now, member.quiet_since + late);
      if (member.wait) member.wait->blamed_since = std::min(now, member.wait->blamed_since + late);
    }
    if (judge_at_ != Time::never()) judge_at_ = judge_at_ + late;
  }
  next_sweep_ = now + tick();
  beat(now);
  for (Member& member : members_) check_member(member, now);
  check_phase(now);
  advance(now);
}

void Coordinator::beat(Time now) {
  wire::Envelope envelope;
  envelope.mutable_heartbeat()->set_advance(advance_);
  for (Member& member : members_) {
    const bool connected = member.standing > Standing::unconnected && member.standing < Standing::gone;
    if (connected && member.last_sent + config_.timing.heartbeat_interval <= now + tick())
      send(member, envelope, now);
  }
}

void Coordinator::check_member(Member& member, Time now) {
  const bool heartbeats = member.standing == Standing::deciding || member.standing == Standing::active;
  const Duration silence = now - member.last_heard;
  const bool doubted = std::exchange(member.doubted, silence >= config_.timing.suspect_after - tick());
  if (heartbeats && doubted && silence >= config_.timing.suspect_after) {
    lose(member, {Errc::peer_failed, "fell silent for " + to_text(config_.timing.suspect_after)},
         Parting::dismiss, now);
  } else if (now >= member.deadline || now >= member.commit_by) {
    if (member.standing == Standing::aborting) return close(member);
    const bool connected = member.standing != Standing::unconnected;
    if (!connected && member.follows_another && is_left_out())
      return interrupt({Errc::cancelled, "the others go on without it"}, now);
    const auto due = now >= member.deadline ? member.due : member.commit_due;
    const Error cause{Errc::timed_out, std::string("did not ").append(due).append(" in time")};
    const bool tell = member.standing == Standing::active && member.delivery < Delivery::committing;
    lose(member, cause, tell ? Parting::abort : connected ? Parting::dismiss : Parting::close, now);
  } else if (now >= member.connect_at) {
    member.connect_at = Time::never();
    outputs_.emplace_back(ConnectRequested{member.spec.member});
  }
}

void Coordinator::check_phase(Time now) {
  if (now >= judge_at_) judge(now);
  end_stall(now);
  if (now >= choose_by_)
    interrupt({Errc::timed_out, "the coordinator's application chose no parameters in time"}, now);
}

}  // namespace rdmc::session
