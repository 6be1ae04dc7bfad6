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

/// Who was told of the last epoch and has not answered yet is on its way there.
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
    state.is_drained = false;
  }
}

/// The root that an application asks for, if it can be had. What the oldest one wishes for every view goes
/// before what others wish once.
std::optional<MemberId> wish_of(const GroupStates& states, const Members& asked,
                                const Members& participants) {
  if (!asked.empty()) {
    const GroupState& oldest = states.at(asked.front());
    if (oldest.wish_stands && contains(participants, *oldest.wish)) return oldest.wish;
  }
  for (const MemberId member : asked) {
    const GroupState& state = states.at(member);
    if (state.wish && !state.wish_stands && contains(participants, *state.wish)) return state.wish;
  }
  return std::nullopt;
}

}  // namespace

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
                               const std::optional<Begun>& last) {
  if (last) overlay(states, *last);
  Members insiders, newcomers;
  std::uint64_t least = 1;
  const GroupState* latest = nullptr;
  for (const MemberId member : order) {
    const auto found = states.find(member);
    if (found == states.end()) continue;
    const GroupState& state = found->second;
    (state.epoch == 0 ? newcomers : insiders).push_back(member);
    least = std::max(least, state.first_members);
    if (state.epoch != 0 && (latest == nullptr || state.epoch > latest->epoch)) latest = &state;
  }
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

  Members participants = insiders;
  if (nobody_closes) {
    for (const MemberId newcomer : newcomers)
      if (is_connected_with_all(states, newcomer, participants)) participants.push_back(newcomer);
  }
  if (participants.empty() || (insiders.empty() && participants.size() < least)) return std::nullopt;
  std::ranges::sort(participants, {}, [&](MemberId member) { return std::ranges::find(order, member); });

  const auto wish = wish_of(states, insiders.empty() ? participants : insiders, participants);
  MemberId root = insiders.empty() ? participants.front() : insiders.front();
  if (latest != nullptr && contains(participants, latest->root)) root = latest->root;
  const bool is_root_there = contains(insiders, root) && latest->root == root;
  const bool is_drained = is_root_there && states.at(root).is_drained;
  const bool changes = participants.size() != insiders.size() || !is_settled;
  if (wish && *wish != root && is_root_there && !is_drained && !changes)
    return Drain{.group = latest->group, .epoch = latest->epoch};
  if (wish && (!is_root_there || is_drained)) root = *wish;
  if (!changes && !is_drained) return std::nullopt;
  const auto is_ready = [&](MemberId member) { return is_connected_with_all(states, member, insiders); };
  if (!std::ranges::all_of(insiders, is_ready)) return std::nullopt;
  return NewEpoch{.group = states.begin()->second.group,
                  .epoch = 0,
                  .root = root,
                  .participants = std::move(participants)};
}

}  // namespace rdmc::member_groups
