// Finds members that delay the others or the end of the job, although no data path notices a failure. It also
// finds members that send too many messages. README.md has the rules and their reasons.
#include <algorithm>
#include <tuple>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

using For = relay::Wait::For;

/// The number of messages per second that a member may send in addition to its heartbeats.
constexpr double kOtherMessagesPerSecond = 50;
/// A burst may contain as many messages as a member may send in this time. Messages may have gathered in
/// sockets while this process was stopped.
constexpr double kBurstSeconds = 10;

}  // namespace

/// Counts a message of the member. Returns true if the member sends too many messages (a leaky bucket).
/// Without this limit, one member could use up the time of the control loop.
bool Coordinator::floods(Member& member, Time now) {
  const double rate = kOtherMessagesPerSecond + 4 / config_.timing.heartbeat_interval.seconds();
  const double leaked = rate * (now - std::exchange(member.last_counted, now)).seconds();
  member.messages_ahead = std::max(member.messages_ahead - leaked, 0.0) + 1;
  return member.messages_ahead > kBurstSeconds * rate;
}

void Coordinator::begin_watch(Time now) {
  epoch_began_ = now;
  for (Member& member : members_) {
    member.wait.reset();
    member.lags.clear();
    member.bytes_before = member.bytes_done;
    member.quiet_since = now;
    member.quiet_bytes = member.bytes_done;
  }
}

void Coordinator::on_wait(Member& member, const wire::Wait& wait, Time now) {
  const Epoch epoch{wait.epoch()};
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::running || !member.in_epoch)
    return broken_protocol(member, "sent Wait out of turn", now);
  const auto told = load(wait);
  const bool own = told && told->peer == member.rank;
  if (told && own != (told->what == For::store)) return broken_protocol(member, "waits for itself", now);
  member.quiet_since = now;
  if (!told)
    member.wait.reset();
  else if (!member.wait || member.wait->wait != *told)
    member.wait = ToldWait{*told, now, now};
}

/// Returns the earliest wait in the schedule, and the member that has reported it. Only waits for another
/// member (room or block) count, and only if they have lasted for `age`. Every later wait may be a
/// consequence of the earliest wait.
std::optional<std::pair<Rank, Coordinator::ToldWait>> Coordinator::earliest_wait(Duration age, Time now) {
  std::optional<std::pair<Rank, ToldWait>> earliest;
  const auto key = [](const ToldWait& told) { return std::tuple(told.wait.step, told.wait.what); };
  for (const Member& member : members_) {
    const auto& told = member.wait;
    if (!member.in_epoch || !told || told->wait.what > For::block || now - told->blamed_since < age) continue;
    if (at(told->wait.peer) == nullptr) continue;
    if (!earliest || key(*told) < key(earliest->second)) earliest.emplace(member.rank, *told);
  }
  return earliest;
}

/// True if the member that `observer` waits for has an excuse: it reports what delays it, and this reason is
/// acceptable.
bool Coordinator::is_excused(Rank observer, const ToldWait& told, Time now) {
  const Member& member = *at(told.wait.peer);
  if (!member.wait) return false;
  const auto& [step, peer, what] = member.wait->wait;
  if (what == For::store && member.rank == kRootRank) return says_why(member, now);
  if (now - told.since >= config_.timing.patience) return false;
  return what == For::store || (what == For::link && peer == observer) || step < told.wait.step;
}

/// Called when a wait has an excuse. All waits until now were justified, so the time until a member is lost
/// begins again for every member.
void Coordinator::forgive(Rank excused, Time now) {
  const bool source_is_slow = excused == kRootRank && at(excused)->wait->wait.what == For::store;
  for (Member& member : members_) {
    member.quiet_since = now;
    if (!member.wait) continue;
    member.wait->blamed_since = now;
    if (source_is_slow && member.wait->wait.what != For::store) member.wait->since = now;
  }
  ++advance_;
}

void Coordinator::end_stall(Time now) {
  if (phase_ != Phase::running || judge_at_ != Time::never()) return;
  const auto first = earliest_wait({}, now);
  if (first && is_excused(first->first, first->second, now)) return forgive(first->second.wait.peer, now);
  const auto blame = earliest_wait(config_.timing.stall_after, now);
  if (!blame) return lose_quiet(now);
  const auto& [observer, told] = *blame;
  if (is_excused(observer, told, now)) return forgive(told.wait.peer, now);
  ++counters_.stalls;
  lay_blame(observer, told, now);
}

/// Called when the member that `observer` waits for has no excuse. Usually this member is lost. A member that
/// has all that the epoch sends is not lost the first time; the epoch ends instead.
void Coordinator::lay_blame(Rank observer, const ToldWait& told, Time now) {
  const Rank peer = told.wait.peer;
  const std::string lasted = " for " + to_text(config_.timing.stall_after) + " while others waited";
  Member* const blamed = at(peer);
  const bool is_source = peer == kRootRank;
  if (is_source && blamed->wait && blamed->wait->wait.what == For::store) {
    // The source reports that it cannot read its store, and it is not the root. Another survivor may have the
    // blocks.
    lose(*blamed, {Errc::timed_out, "read no block for " + to_text(config_.timing.patience)},
         Parting::dismiss, now);
  } else if (is_source) {
    // The source has already sent its blocks, so a wait for the source counts against the observer.
    lose(*at(observer), {Errc::protocol_error, "says that it waits for the source, which has given"},
         Parting::abort, now);
  } else if ((blamed->delivery != Delivery::none || blamed->complete) &&
             !std::exchange(blamed->spared, true)) {
    end_epoch(now);
  } else {
    const char* const what = told.wait.what == For::room ? "took no block" : "passed on no block";
    lose(*blamed, {Errc::timed_out, what + lasted}, Parting::abort, now);
  }
}

/// True if the member reports what it waits for, and has not reported the same wait for longer than
/// Timing::patience. The root may wait without a limit, because only the root has the blocks that it has not
/// sent yet.
bool Coordinator::says_why(const Member& member, Time now) const {
  return member.wait && (member.spec.member == kRoot || now - member.wait->since < config_.timing.patience);
}

/// True if the source has had nothing left to do for stall_after.
bool Coordinator::is_source_quiet(Time now) {
  const Member* const source = at(kRootRank);
  return source != nullptr && !says_why(*source, now) &&
         now - source->quiet_since >= config_.timing.stall_after;
}

/// Called when no wait shows which member is the cause. If the source has nothing left to do, removes the
/// members that lack blocks, do not report a reason, and gain no bytes.
void Coordinator::lose_quiet(Time now) {
  if (!is_source_quiet(now)) return;
  for (Member& member : members_) {
    const bool lacks = member.in_epoch && member.delivery == Delivery::none && !member.complete;
    if (!lacks || says_why(member, now) || now - member.quiet_since < config_.timing.stall_after) continue;
    ++counters_.stalls;
    lose(member, {Errc::timed_out, "got no further for " + to_text(config_.timing.stall_after)},
         Parting::abort, now);
  }
}

}  // namespace rdmc::session
