#include "lib/membership/wishes.hpp"

namespace rdmc::member_groups {

/// Makes sure that the wishes before this one never count again.
void Wishes::end(GroupNumber group, const Wish& wish) {
  for (auto& [member, wishes] : wishes_)
    if (const auto found = wishes.find(group); found != wishes.end() && found->second.arrival < wish.arrival)
      found->second.arrival.reset();
}

void Wishes::note(MemberId from, const State& state) {
  ByGroup now;
  ByGroup& before = wishes_[from];
  for (const GroupState& group : state.groups) {
    if (!group.wish || group.wish_stands) continue;
    const auto known = before.find(group.group);
    const bool is_known = known != before.end() && known->second.life == group.life &&
                          known->second.number == group.wish_number;
    now[group.group] = is_known ? known->second : Wish{group.life, group.wish_number, ++arrived_};
  }
  std::swap(before, now);
  for (const auto& [group, wish] : now)
    if (const auto same = before.find(group); same == before.end() || same->second.number != wish.number)
      end(group, wish);
}

void Wishes::forget(MemberId member) {
  const auto gone = wishes_.extract(member);
  if (gone.empty()) return;
  for (const auto& [group, wish] : gone.mapped()) end(group, wish);
}

std::optional<std::uint64_t> Wishes::arrival(MemberId member, GroupNumber group) const {
  const auto wishes = wishes_.find(member);
  if (wishes == wishes_.end()) return std::nullopt;
  const auto found = wishes->second.find(group);
  return found == wishes->second.end() ? std::nullopt : found->second.arrival;
}

}  // namespace rdmc::member_groups
