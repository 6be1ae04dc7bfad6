// Stragglers are members whose links are slower than those of the others, or which are far from the others.
// The coordinator finds slow links by the lags that data paths report, and far members by their round-trip
// times. In the next epoch the application gives stragglers a part in which they delay no other member.
// README.md has the rule.
#include <algorithm>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"

namespace rdmc::session {
namespace {

/// The largest number of stragglers is the number of members that lack data, divided by this number. If more
/// members are slow, the slow members do not differ from the rest.
constexpr std::size_t kMembersPerStraggler = 4;
/// If at least this number of members lack data, one of them can be a straggler, whatever
/// kMembersPerStraggler allows.
constexpr std::size_t kLeastLacking = 3;
/// A new epoch is worthwhile if another member would otherwise lack data for this multiple of
/// lag_of_a_straggler().
constexpr int kWorthwhile = 2;
/// A lag that is withdrawn and reported again within this time counts as one lag without an interruption.
constexpr Duration kLagPause = milliseconds(200);
/// Members check for lags ten times a second, and a busy member checks later. So if two lags are reported
/// within this time, the lag that was reported later may have begun first.
constexpr Duration kLookApart = milliseconds(150);
/// A member is far if its round-trip time is at least kFar, and at least kTimesAsFar times the median of all
/// members.
constexpr Duration kFar = milliseconds(10);
constexpr int kTimesAsFar = 4;
/// On long paths, a lag must last for this number of round trips, but not longer than kMostLag. There, a
/// ring also fills because windows are still small, and because acknowledgements are under way.
constexpr int kRoundTripsOfLag = 8;
constexpr Duration kMostLag = seconds(3);

std::size_t most_stragglers(std::ptrdiff_t lacking) {
  const auto all = static_cast<std::size_t>(lacking);
  return all < kLeastLacking ? 0 : std::max<std::size_t>(1, all / kMembersPerStraggler);
}

}  // namespace

void Coordinator::on_lag(Member& member, const wire::Lag& lag, Time now) {
  const Epoch epoch{lag.epoch()};
  if (stale(epoch)) return;
  if (epoch != epoch_ || phase_ != Phase::running || !member.in_epoch)
    return broken_protocol(member, "sent Lag out of turn", now);
  std::vector<ToldLag> told;
  for (const std::uint32_t number : lag.ranks()) {
    const Rank rank{number};
    if (number >= by_rank_.size() || rank == member.rank)
      return broken_protocol(member, "names members as lagging that it does not have", now);
    if (told.size() == kMostLags) return broken_protocol(member, "names too many as lagging", now);
    told.push_back({.rank = rank, .since = now, .over = {}});
  }
  for (const ToldLag& before : member.lags) {
    const Time over = before.over.value_or(now);
    if (now - over >= kLagPause) continue;
    const auto again = std::ranges::find(told, before.rank, &ToldLag::rank);
    if (again != told.end())
      again->since = before.since;
    else
      told.push_back({.rank = before.rank, .since = before.since, .over = over});
  }
  member.lags = std::move(told);
}

/// Returns the time since which another member has delayed this member's ring. Only lags count that the
/// member reports now, or that it withdrew less than kLagPause ago. Returns nullopt if there is none.
std::optional<Time> Coordinator::held_up_since(const Member& member, Time now) {
  std::optional<Time> since;
  for (const ToldLag& lag : member.lags)
    if (now - lag.over.value_or(now) < kLagPause) since = std::min(since.value_or(lag.since), lag.since);
  return since;
}

/// Finds stragglers by the reported lags. A lag spreads from a straggler to the members that send to it, and
/// further towards the source. So a member that delays another member's ring is a straggler if its own ring
/// was not delayed before.
void Coordinator::find_stragglers(Time now) {
  if (!config_.finds_stragglers || config_.has_slow_uplinks) return;
  if (phase_ != Phase::running || judge_at_ != Time::never()) return;
  const Duration straggler_after = lag_of_a_straggler();
  std::vector<Member*> found;
  for (const Member& observer : members_) {
    if (!observer.in_epoch) continue;
    for (const ToldLag& lag : observer.lags) {
      if (lag.over || now - lag.since < straggler_after) continue;
      Member* const slow = at(lag.rank);
      if (slow == nullptr || slow->rank == kRootRank || slow->is_straggler || !lacks(*slow)) continue;
      const auto before = held_up_since(*slow, now);
      const bool is_held_up = before && *before <= lag.since + kLookApart;
      if (!is_held_up && std::ranges::find(found, slow) == found.end()) found.push_back(slow);
    }
  }
  if (found.empty()) return;
  const auto known =
      std::ranges::count_if(members_, [](const Member& m) { return m.is_straggler && lacks(m); });
  const auto lacking = std::ranges::count_if(members_, lacks);
  if (static_cast<std::size_t>(known) + found.size() > most_stragglers(lacking) || !is_worthwhile(found, now))
    return;
  for (Member* const slow : found) slow->is_straggler = true;
  counters_.stragglers += found.size();
  end_epoch(now);
}

/// Finds far members. A far member delays the others in two ways. A member that receives blocks from a far
/// member gets them late. Blocks for a far member stay in the ring of their sender for a long time. A member
/// is far if its round-trip time is at least kFar and at least kTimesAsFar times the median.
void Coordinator::find_far() {
  if (!config_.finds_stragglers) return;
  std::vector<Member*> lacking;
  std::vector<Duration> round_trips;
  std::size_t stragglers = 0;
  for (Member& member : members_) {
    if (member.standing != Standing::active || member.delivery != Delivery::none) continue;
    lacking.push_back(&member);
    stragglers += member.is_straggler;
    if (member.round_trip) round_trips.push_back(*member.round_trip);
  }
  if (round_trips.empty()) return;
  const auto middle = round_trips.begin() + static_cast<std::ptrdiff_t>((round_trips.size() - 1) / 2);
  std::ranges::nth_element(round_trips, middle);
  const Duration least = std::max(kFar, *middle * kTimesAsFar);
  const auto is_near = [&](const Member* member) {
    return member->is_straggler || !member->round_trip || *member->round_trip < least;
  };
  std::vector<Member*> far = lacking;
  std::erase_if(far, is_near);
  if (far.size() + stragglers > most_stragglers(static_cast<std::ptrdiff_t>(lacking.size()))) return;
  for (Member* const member : far) member->is_straggler = true;
  counters_.stragglers += far.size();
}

/// Returns the time for which a member must delay the ring of another member to be a straggler.
Duration Coordinator::lag_of_a_straggler() const {
  Duration longest;
  for (const Member& member : members_)
    if (lacks(member) && !member.is_straggler)
      longest = std::max(longest, member.round_trip.value_or(Duration{}));
  return std::max(config_.timing.straggler_after, std::min(longest * kRoundTripsOfLag, kMostLag));
}

bool Coordinator::lacks(const Member& member) {
  return member.in_epoch && member.delivery == Delivery::none && !member.complete;
}

/// True if a member that is no straggler would lack data for a long time if it continued at its rate in this
/// epoch.
bool Coordinator::is_worthwhile(std::span<Member* const> found, Time now) const {
  const double least = kWorthwhile * lag_of_a_straggler().seconds();
  return std::ranges::any_of(members_, [&](const Member& member) {
    if (!lacks(member) || member.is_straggler || std::ranges::find(found, &member) != found.end())
      return false;
    const auto left = static_cast<double>(config_.job_bytes - std::min(config_.job_bytes, member.bytes_done));
    const auto gained = static_cast<double>(member.bytes_done - member.bytes_before);
    return (now - epoch_began_).seconds() * left > least * gained;
  });
}

}  // namespace rdmc::session
