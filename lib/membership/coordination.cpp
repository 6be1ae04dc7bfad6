#include "lib/membership/coordination.hpp"

#include <algorithm>

namespace rdmc::member_groups {
namespace {

using Members = std::vector<MemberId>;

bool contains(const Members& members, MemberId member) {
  return std::ranges::find(members, member) != members.end();
}

bool are_connected(const GroupStates& states, MemberId one, MemberId other) {
  return contains(states.at(one).connected, other) && contains(states.at(other).connected, one);
}

bool is_connected_with_all(const GroupStates& states, MemberId one, const Members& others) {
  return std::ranges::all_of(
      others, [&](MemberId other) { return other == one || are_connected(states, one, other); });
}

/// Treats a member that was informed of the last epoch, and has not reported since, as if it had begun that
/// epoch.
void overlay(GroupStates& states, const Begun& last) {
  for (const auto& [member, life] : last.lives) {
    const auto found = states.find(member);
    if (found == states.end() || found->second.life != life || found->second.epoch >= last.epoch.epoch)
      continue;
    GroupState& state = found->second;
    state.stage = Stage::going;
    state.epoch = last.epoch.epoch;
    state.root = last.epoch.root;
    state.participants = last.epoch.participants;
    state.settled_wishes = last.epoch.settled_wishes;
    state.is_drained = false;
  }
}

/// Returns the number up to which the member's own wishes are settled. It comes from the newest epoch's
/// message to all participants, which the member itself may not have received.
std::uint64_t settled_by(const GroupState* latest, MemberId member) {
  if (latest == nullptr) return 0;
  const auto found = std::ranges::find(latest->participants, member);
  const auto at = static_cast<std::size_t>(found - latest->participants.begin());
  return at < latest->settled_wishes.size() ? latest->settled_wishes[at] : 0;
}

/// Returns the root that an application requests, if it is a participant. A wish of the oldest member for
/// every view has priority over one-time wishes. Of the one-time wishes, only the one that arrived last
/// counts.
std::optional<MemberId> wish_of(const GroupStates& states, const Members& asked, const Members& participants,
                                const GroupState* latest, const Circumstances& now) {
  if (!asked.empty()) {
    const GroupState& oldest = states.at(asked.front());
    if (oldest.wish_stands && contains(participants, *oldest.wish)) return oldest.wish;
  }
  std::optional<MemberId> wish;
  std::uint64_t newest = 0;
  for (const MemberId member : asked) {
    const GroupState& state = states.at(member);
    if (!state.wish || state.wish_stands) continue;
    if (const auto settled = settled_by(latest, member); settled != 0 && state.wish_number <= settled)
      continue;
    const auto arrival = now.arrivals.find(member);
    const std::uint64_t number = arrival == now.arrivals.end() ? 0 : arrival->second;
    if (wish && number <= newest) continue;
    wish = state.wish;
    newest = number;
  }
  return wish && contains(participants, *wish) ? wish : std::nullopt;
}

/// Removes members until all remaining ones are connected with each other. Each step removes the member that
/// lacks the most connections, and the youngest of several such members.
Members connected_ones(const GroupStates& states, Members members) {
  for (;;) {
    std::size_t most = 0, worst = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto lacks = static_cast<std::size_t>(std::ranges::count_if(members, [&](MemberId other) {
        return other != members[i] && !are_connected(states, members[i], other);
      }));
      if (lacks > 0 && lacks >= most) most = lacks, worst = i;
    }
    if (most == 0) return members;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(worst));
  }
}

/// True if `some` are more than half of `all`, or exactly half including the oldest member. `all` must be in
/// the order of the view. Any two such sets have a member in common.
bool is_majority(const Members& some, const Members& all) {
  const auto inside = static_cast<std::size_t>(
      std::ranges::count_if(all, [&](MemberId member) { return contains(some, member); }));
  return 2 * inside > all.size() || (2 * inside == all.size() && inside > 0 && contains(some, all.front()));
}

const GroupState* latest_of(const GroupStates& states) {
  const GroupState* latest = nullptr;
  for (const auto& [member, state] : states)
    if (state.epoch != 0 && (latest == nullptr || state.epoch > latest->epoch)) latest = &state;
  return latest;
}

}  // namespace

std::vector<MemberId> left_out(GroupStates states, const std::optional<Begun>& last) {
  if (last) overlay(states, *last);
  const GroupState* const latest = latest_of(states);
  std::vector<MemberId> others;
  for (const auto& [member, state] : states)
    if (state.epoch != 0 && state.epoch < latest->epoch && !contains(latest->participants, member))
      others.push_back(member);
  return others;
}

std::vector<MemberId> with_other_options(std::span<const MemberId> order, GroupStates states,
                                         const std::optional<Begun>& last) {
  if (last) overlay(states, *last);
  const GroupState* first = nullptr;
  for (const MemberId member : order) {
    const auto found = states.find(member);
    if (found == states.end()) continue;
    if (first == nullptr || (first->epoch == 0 && found->second.epoch != 0)) first = &found->second;
  }
  std::vector<MemberId> others;
  for (const auto& [member, state] : states)
    if (state.options != first->options) others.push_back(member);
  return others;
}

std::optional<Decision> decide(std::span<const MemberId> order, GroupStates states,
                               const std::optional<Begun>& last, const Circumstances& now) {
  if (last) overlay(states, *last);
  const GroupState* const latest = latest_of(states);
  Members insiders, newcomers, heard;
  bool is_somebody_silent = false;
  std::uint64_t least = 1;
  for (const MemberId member : order) {
    if (contains(now.silent, member))
      is_somebody_silent |= latest == nullptr || contains(latest->participants, member);
    else
      heard.push_back(member);
    const auto found = states.find(member);
    if (found == states.end()) continue;
    const GroupState& state = found->second;
    (state.epoch == 0 ? newcomers : insiders).push_back(member);
    least = std::max(least, state.first_members);
  }
  // The silent members may be in an epoch that a former coordinator has begun. That epoch needed a majority
  // of the same kind, and any two majorities have a member in common. So a member that has reported would
  // know of it.
  if (is_somebody_silent && (latest == nullptr ? !is_majority(heard, Members(order.begin(), order.end()))
                                               : !is_majority(insiders, latest->participants)))
    return std::nullopt;
  const auto all = [&](auto has) {
    return std::ranges::all_of(insiders, [&](MemberId member) { return has(states.at(member)); });
  };
  const bool is_settled =
      latest != nullptr && latest->participants.size() == insiders.size() &&
      std::ranges::all_of(insiders, [&](MemberId m) { return contains(latest->participants, m); }) &&
      all([&](const GroupState& s) { return s.epoch == latest->epoch && s.stage != Stage::failed; });
  const bool is_open =
      all([](const GroupState& s) { return s.stage == Stage::open || s.stage == Stage::closing; });
  const bool nobody_closes = all([](const GroupState& s) { return s.stage != Stage::closing; });
  if (is_settled && !is_open) return std::nullopt;
  if (is_settled && all([](const GroupState& s) { return s.stage == Stage::closing; }))
    return AllClose{.group = latest->group, .epoch = latest->epoch};

  const Members kept = now.is_time_over ? connected_ones(states, insiders) : insiders;
  if (kept != insiders && !is_majority(kept, is_somebody_silent ? latest->participants : insiders))
    return std::nullopt;
  Members participants = kept;
  if (nobody_closes) {
    for (const MemberId newcomer : newcomers)
      if (is_connected_with_all(states, newcomer, participants)) participants.push_back(newcomer);
  }
  if (participants.empty() || (kept.empty() && participants.size() < least)) return std::nullopt;
  std::ranges::sort(participants, {}, [&](MemberId member) { return std::ranges::find(order, member); });

  const auto wish = wish_of(states, kept.empty() ? participants : kept, participants, latest, now);
  MemberId root = kept.empty() ? participants.front() : kept.front();
  if (latest != nullptr && contains(participants, latest->root)) root = latest->root;
  const bool is_root_there = contains(kept, root) && latest->root == root;
  const bool is_drained = is_root_there && states.at(root).is_drained;
  const bool changes = participants != insiders || !is_settled;
  if (wish && *wish != root && is_root_there && !is_drained && !changes)
    return Drain{.group = latest->group, .epoch = latest->epoch};
  if (wish && (!is_root_there || is_drained)) root = *wish;
  if (!changes && !is_drained) return std::nullopt;
  const auto is_ready = [&](MemberId member) { return is_connected_with_all(states, member, kept); };
  if (!std::ranges::all_of(kept, is_ready)) return Unconnected{};
  std::vector<std::uint64_t> settled;
  for (const MemberId member : participants)
    settled.push_back(std::max(settled_by(latest, member), wish == root ? states.at(member).wish_number : 0));
  return NewEpoch{.group = states.begin()->second.group,
                  .epoch = 0,
                  .root = root,
                  .participants = std::move(participants),
                  .settled_wishes = std::move(settled)};
}

}  // namespace rdmc::member_groups
