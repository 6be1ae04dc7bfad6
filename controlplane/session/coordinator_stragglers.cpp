// Members whose links are slower than the others': found by what data paths say of their neighbours, and left
// to the application, which gives them a part in the next epoch that holds up nobody. README.md has the rule.
#include <algorithm>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

/// Where more members are slow, none stands out.
constexpr std::size_t kOneOf = 4;
/// What is left takes at least so many times as long as it took to find out.
constexpr int kWorthwhile = 2;

}  // namespace

void Coordinator::on_lag(Member& member, const wire::Lag& lag, Time now) {
  const Epoch epoch{lag.epoch()};
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::running || !member.in_epoch)
    return broken_protocol(member, "sent Lag out of turn", now);
  if (lag.has_rank() && (lag.rank() >= by_rank_.size() || Rank{lag.rank()} == member.rank))
    return broken_protocol(member, "waits for a member it does not have", now);
  const auto rank = lag.has_rank() ? std::optional(Rank{lag.rank()}) : std::nullopt;
  if (rank == member.lagging) return;
  member.lagging = rank;
  member.lagging_since = now;
}

/// Of those that hold up somebody's ring the ones whose own ring nobody held up before: a lag spreads from a
/// straggler to whoever sends to it, and on towards the source.
void Coordinator::find_stragglers(Time now) {
  if (!config_.finds_stragglers || phase_ != Phase::running || judge_at_ != Time::never()) return;
  std::vector<Member*> found;
  for (const Member& observer : members_) {
    if (!observer.in_epoch || !observer.lagging) continue;
    if (now - observer.lagging_since < config_.timing.straggler_after) continue;
    Member* const slow = at(*observer.lagging);
    if (slow == nullptr || slow->rank == kRootRank || slow->is_straggler || !lacks(*slow)) continue;
    const bool is_held_up = slow->lagging && slow->lagging_since <= observer.lagging_since;
    if (!is_held_up && std::ranges::find(found, slow) == found.end()) found.push_back(slow);
  }
  if (found.empty() || !is_worthwhile(now)) return;
  const auto known =
      std::ranges::count_if(members_, [&](const Member& m) { return m.is_straggler && lacks(m); });
  const auto lacking = std::ranges::count_if(members_, [&](const Member& m) { return lacks(m); });
  if ((static_cast<std::size_t>(known) + found.size()) * kOneOf > static_cast<std::size_t>(lacking)) return;
  for (Member* const slow : found) slow->is_straggler = true;
  counters_.stragglers += found.size();
  end_epoch(now);
}

bool Coordinator::lacks(const Member& member) {
  return member.in_epoch && member.delivery == Delivery::none && !member.complete;
}

/// By the member that has gained most in this epoch.
bool Coordinator::is_worthwhile(Time now) const {
  std::uint64_t gained = 1, left = 0;
  for (const Member& member : members_) {
    if (!lacks(member) || member.bytes_done - member.bytes_before < gained) continue;
    gained = member.bytes_done - member.bytes_before;
    left = config_.job_bytes - member.bytes_done;
  }
  const double lasts =
      (now - epoch_began_).seconds() * static_cast<double>(left) / static_cast<double>(gained);
  return lasts > kWorthwhile * config_.timing.straggler_after.seconds();
}

}  // namespace rdmc::session
