// The phase in which an epoch runs: progress, and the judgement of suspicions that data paths report. A queue
// pair in the error state cannot recover in its epoch, so a suspicion always ends the epoch. The judgement
// decides which members are left out of the next epoch. README.md has the rule and its reasons.
#include <algorithm>
#include <utility>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

/// The least gain that counts as progress. A member that gains fewer bytes in the whole of stall_after does
/// not count as making progress.
constexpr std::uint64_t kLeastGain = 4096;

}  // namespace

void Coordinator::on_progress(Member& member, Epoch epoch, std::uint64_t bytes_done, Time now) {
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::running || !member.in_epoch)
    return broken_protocol(member, "sent Progress out of turn", now);
  if (bytes_done > config_.job_bytes)
    return broken_protocol(member, "says that it has more bytes than there are", now);
  if (bytes_done <= member.bytes_done) return;
  ++advance_;
  member.bytes_done = bytes_done;
  if (bytes_done >= member.quiet_bytes + kLeastGain) {
    member.quiet_bytes = bytes_done;
    member.quiet_since = now;
  }
  outputs_.emplace_back(Progressed{member.spec.member, bytes_done});
}

void Coordinator::on_complete(Member& member, Epoch epoch, Time now) {
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::running || !member.in_epoch)
    return broken_protocol(member, "sent Complete out of turn", now);
  if (!std::exchange(member.complete, true)) ++advance_;
}

void Coordinator::on_suspect(Member& member, const wire::Suspect& suspect, Time now) {
  const Epoch epoch{suspect.epoch()};
  if (stale(epoch)) return;
  const Rank rank{suspect.rank()};
  if (epoch != epoch_ || !member.in_epoch) return broken_protocol(member, "sent Suspect out of turn", now);
  if (value_of(rank) >= by_rank_.size() || rank == member.rank)
    return broken_protocol(member, "suspects a member it does not have", now);
  add_suspicion(member.rank, rank, printable(suspect.cause()), now);
}

void Coordinator::add_suspicion(Rank observer, Rank suspect, std::string cause, Time now) {
  const auto same = [&](const Suspicion& s) { return s.observer == observer && s.suspect == suspect; };
  if (std::ranges::any_of(suspicions_, same)) return;
  ++counters_.suspicions;
  if (suspicions_.empty()) judge_at_ = now + config_.timing.probe_timeout;
  suspicions_.push_back({observer, suspect, std::move(cause)});
  probe(suspect, now);
  probe(observer, now);
}

/// Sends a probe to the member, at most once in each epoch. Called for both ends of a suspected link.
void Coordinator::probe(Rank rank, Time now) {
  Member* member = at(rank);
  if (member == nullptr || member->probed) return;
  member->probed = now;
  member->probe_due = next_nonce_++;
  wire::Envelope envelope;
  envelope.mutable_probe()->set_nonce(member->probe_due);
  send(*member, envelope, now);
}

void Coordinator::on_probe_answer(Member& member, std::uint64_t nonce) {
  if (nonce == member.probe_due)
    member.probe_due = 0;
  else
    ++counters_.late_messages;
}

void Coordinator::judge(Time now) {
  ++counters_.judgements;
  for (Member& member : members_) {
    if (!member.in_epoch || member.probe_due == 0) continue;
    const bool had_time = now - *member.probed >= config_.timing.probe_timeout / 2;
    if (had_time)
      lose(member, {Errc::peer_failed, "is suspected and did not answer a probe"}, Parting::dismiss, now);
  }
  while (const Suspicion* worst = worst_suspicion()) {
    Member& member = *at(worst->accused());
    const Rank other = worst->suspect == member.rank ? worst->observer : worst->suspect;
    lose(member, {Errc::peer_failed, "has a broken data link to " + name_of(other) + ": " + worst->cause},
         Parting::abort, now);
  }
  end_epoch(now);
}

/// Returns the name of the member with this rank. The member may have been lost from epoch_.
const std::string& Coordinator::name_of(Rank rank) const {
  return members_[by_rank_[value_of(rank)]].spec.name;
}

/// Returns the suspicion that is judged next, or nullptr if there is none. Two kinds of suspicions are left
/// out: those that the loss of a member explains, and those of members that have delivered, because these
/// members take no part in the next epoch. Of the remaining suspicions, returns one against the member that
/// has the most observers. If several members have equally many observers, returns the suspicion that was
/// reported first.
const Coordinator::Suspicion* Coordinator::worst_suspicion() {
  const Suspicion* worst = nullptr;
  std::size_t most_observers = 0;
  const auto leaves = [&](Rank rank) {
    if (rank == kRootRank) return false;
    const Member* member = at(rank);
    return member == nullptr || member->delivery != Delivery::none;
  };
  const auto open = [&](const Suspicion& s) { return !leaves(s.observer) && !leaves(s.suspect); };
  for (const Suspicion& candidate : suspicions_) {
    if (!open(candidate)) continue;
    const auto against = [&](const Suspicion& s) { return open(s) && s.accused() == candidate.accused(); };
    const auto observers = static_cast<std::size_t>(std::ranges::count_if(suspicions_, against));
    if (observers <= most_observers) continue;
    most_observers = observers;
    worst = &candidate;
  }
  return worst;
}

}  // namespace rdmc::session
