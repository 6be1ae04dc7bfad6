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
  root_wait_.reset();
  quiet_since_ = now;
  for (Member& member : members_) {
    member.wait.reset();
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

void Coordinator::local_waits(Epoch epoch, const std::optional<relay::Wait>& wait, Time now) {
  if (phase_ != Phase::running || epoch != epoch_) return ignore();
  if (wait) quiet_since_ = now;
  if (!wait)
    root_wait_.reset();
  else if (!root_wait_ || root_wait_->wait != *wait)
    root_wait_ = ToldWait{*wait, now, now};
}

const std::optional<Coordinator::ToldWait>& Coordinator::wait_of(Rank rank) {
  const Member* member = at(rank);
  return member != nullptr ? member->wait : root_wait_;
}

/// Of the waits for another that have lasted for `age`, the earliest in the schedule: who waits, and for
/// what. Every other wait may be its consequence.
std::optional<std::pair<Rank, Coordinator::ToldWait>> Coordinator::earliest_wait(Duration age, Time now) {
  std::optional<std::pair<Rank, ToldWait>> earliest;
  const auto key = [](const ToldWait& told) { return std::tuple(told.wait.step, told.wait.what); };
  const auto consider = [&](Rank observer, const std::optional<ToldWait>& told) {
    if (!told || told->wait.what > For::block || now - told->blamed_since < age) return;
    const bool ours = told->wait.peer == kRootRank && !leads_on();
    if (!ours && at(told->wait.peer) == nullptr) return;
    if (!earliest || key(*told) < key(earliest->second)) earliest.emplace(observer, *told);
  };
  consider(kRootRank, root_wait_);
  for (const Member& member : members_)
    if (member.in_epoch) consider(member.rank, member.wait);
  return earliest;
}

/// Does the member that `observer` waits for say what keeps it, and may that be?
bool Coordinator::is_excused(Rank observer, const ToldWait& told, Time now) {
  const auto& excuse = wait_of(told.wait.peer);
  if (!excuse) return false;
  const auto& [step, peer, what] = excuse->wait;
  if (what == For::store && told.wait.peer == kRootRank)
    return !leads_on() || now - excuse->since < config_.timing.patience;
  if (now - told.since >= config_.timing.patience) return false;
  return what == For::store || (what == For::link && peer == observer) || step < told.wait.step;
}

/// What has been waited for until now was waited for with reason: everybody's time begins anew.
void Coordinator::forgive(Rank excused, Time now) {
  const bool source_is_slow = excused == kRootRank && wait_of(excused)->wait.what == For::store;
  const auto restart = [&](std::optional<ToldWait>& wait) {
    if (wait) wait->blamed_since = now;
    if (wait && source_is_slow && wait->wait.what != For::store) wait->since = now;
  };
  restart(root_wait_);
  for (Member& member : members_) {
    member.quiet_since = now;
    restart(member.wait);
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
  const bool gives_up = is_source && leads_on() && blamed->wait && blamed->wait->wait.what == For::store;
  if (gives_up) {  // by its own word; another survivor may hold the blocks. Committed or not, it is no
                   // source.
    lose(*blamed, {Errc::timed_out, "read no block for " + to_text(config_.timing.patience)},
         Parting::dismiss, now);
  } else if (is_source) {  // our own data path knows better; and of a survivor's, it speaks against the
                           // observer
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

/// A wait of a member's own, or one that nobody else is to blame for, counts as long as any excuse.
bool Coordinator::says_why(const Member& member, Time now) const {
  return member.wait && now - member.wait->since < config_.timing.patience;
}

/// Has the source had nothing to do for long? Leading on, it is a member that tells its waits like all.
bool Coordinator::is_source_quiet(Time now) {
  const Member* const source = at(kRootRank);
  if (source != nullptr && says_why(*source, now)) return false;
  return now - (source != nullptr ? source->quiet_since : quiet_since_) >= config_.timing.stall_after;
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
