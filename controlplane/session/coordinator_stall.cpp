// Members that hold up the others, or the end of the job, without a failure that a data path could notice;
// and those that send more than anybody has to say. README.md has the rule and its reasons.
#include <algorithm>
#include <tuple>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

using For = relay::Wait::For;

/// Beside heartbeats a member has a few things to say a second.
constexpr double kOtherMessagesPerSecond = 50;
/// What may have gathered in sockets while we were stopped.
constexpr double kBurstSeconds = 10;

}  // namespace

/// A leaky bucket, so that one member cannot take the control loop's time from the others.
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

/// Of the waits for another that have lasted for `age`, the earliest in the schedule: who waits, and for
/// what. Every other wait may be its consequence.
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

/// Does the member that `observer` waits for say what keeps it, and may that be?
bool Coordinator::is_excused(Rank observer, const ToldWait& told, Time now) {
  const Member& member = *at(told.wait.peer);
  if (!member.wait) return false;
  const auto& [step, peer, what] = member.wait->wait;
  if (what == For::store && member.rank == kRootRank) return says_why(member, now);
  if (now - told.since >= config_.timing.patience) return false;
  return what == For::store || (what == For::link && peer == observer) || step < told.wait.step;
}

/// What has been waited for until now was waited for with reason: everybody's time begins anew.
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

/// Nothing excuses the member that `observer` waits for. Whoever has what the epoch sends does not lose it:
/// the epoch ends instead, once for each.
void Coordinator::lay_blame(Rank observer, const ToldWait& told, Time now) {
  const Rank peer = told.wait.peer;
  const std::string lasted = " for " + to_text(config_.timing.stall_after) + " while others waited";
  Member* const blamed = at(peer);
  const bool is_source = peer == kRootRank;
  if (is_source && blamed->wait && blamed->wait->wait.what == For::store) {
    // By its own word, and it is not the root: another survivor may hold the blocks.
    lose(*blamed, {Errc::timed_out, "read no block for " + to_text(config_.timing.patience)},
         Parting::dismiss, now);
  } else if (is_source) {  // to wait for a source that has given speaks against the observer
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

/// A wait of a member's own, or one that nobody else is to blame for, counts as long as any excuse. The root
/// may wait for ever: what it has not given yet, nobody else has.
bool Coordinator::says_why(const Member& member, Time now) const {
  return member.wait && (member.spec.member == kRoot || now - member.wait->since < config_.timing.patience);
}

/// Has the source had nothing to do for long?
bool Coordinator::is_source_quiet(Time now) {
  const Member* const source = at(kRootRank);
  return source != nullptr && !says_why(*source, now) &&
         now - source->quiet_since >= config_.timing.stall_after;
}

/// When the source has nothing left to do and somebody neither has all, nor says why, nor gains anything.
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
