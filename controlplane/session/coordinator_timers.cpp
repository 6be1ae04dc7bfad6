// The timers of the coordinator. A few times per heartbeat interval, one sweep checks the deadlines of all
// members. So setting a deadline costs the same for any number of members.
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

/// Called with each input. A check that is late by more than the check interval shows that this process did
/// not run. The messages that arrived in this time are still unread, so this time must not count against any
/// member. Therefore all deadlines are moved by this time.
void Coordinator::excuse_absence(Time now) {
  const Duration late = now - next_sweep_;
  if (late <= tick()) return;
  const auto move = [late](Time& time) {
    if (time != Time::never()) time = time + late;
  };
  for (Member& member : members_) {
    for (Time* const time :
         {&member.last_heard, &member.deadline, &member.commit_by, &member.connect_by, &member.quiet_since})
      move(*time);
    if (member.probed) move(*member.probed);
    for (ToldLag& lag : member.lags) {
      move(lag.since);
      if (lag.over) move(*lag.over);
    }
    if (!member.wait) continue;
    move(member.wait->since);
    move(member.wait->blamed_since);
  }
  for (Time* const time : {&choose_by_, &judge_at_, &swept_at_, &next_sweep_, &epoch_began_}) move(*time);
}

/// True if the deadline has passed and the last sweep was not earlier than one sweep interval before the
/// deadline. Everything that arrived before the last sweep has been read by now.
bool Coordinator::is_due(Time deadline, Time now) const {
  return now >= deadline && swept_at_ >= deadline - tick();
}

void Coordinator::on_timer(Time now) {
  excuse_absence(now);
  if (now < next_sweep_) return;
  next_sweep_ = now + tick();
  beat(now);
  for (Member& member : members_) check_member(member, now);
  check_phase(now);
  swept_at_ = now;
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
  const bool is_late = is_due(member.deadline, now);
  if (heartbeats && is_due(member.last_heard + config_.timing.suspect_after, now)) {
    lose(member, {Errc::peer_failed, "fell silent for " + to_text(config_.timing.suspect_after)},
         Parting::dismiss, now);
  } else if (is_late || is_due(member.commit_by, now)) {
    if (member.standing == Standing::aborting) return close(member);
    const bool connected = member.standing != Standing::unconnected;
    if (!connected && member.follows_another && is_left_out())
      return interrupt({Errc::cancelled, "the others go on without it"}, now);
    const auto due = is_late ? member.due : member.commit_due;
    const Error cause{Errc::timed_out, std::string("did not ").append(due).append(" in time")};
    const bool tell = member.standing == Standing::active && member.delivery < Delivery::committing;
    lose(member, cause, tell ? Parting::abort : connected ? Parting::dismiss : Parting::close, now);
  } else if (now >= member.connect_at) {
    member.connect_at = Time::never();
    outputs_.emplace_back(ConnectRequested{member.spec.member});
  }
}

void Coordinator::check_phase(Time now) {
  if (is_due(judge_at_, now)) judge(now);
  end_stall(now);
  find_stragglers(now);
  if (is_due(choose_by_, now))
    interrupt({Errc::timed_out, "the coordinator's application chose no parameters in time"}, now);
}

}  // namespace rdmc::session
