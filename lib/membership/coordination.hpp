// What the coordinator of a view - its oldest member - decides about one group: who is in its next epoch, and
// who is the root. It decides from what all members of the view have told, and from the order of the view.
// Pure functions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <variant>

#include "lib/membership/messages.hpp"

namespace rdmc::member_groups {

/// By member: those who have made the group.
using GroupStates = std::map<MemberId, GroupState>;

/// An epoch that the coordinator has begun, and which lives of its participants it has told.
struct Begun {
  NewEpoch epoch;
  std::map<MemberId, std::uint64_t> lives;
};

/// `order`: the members of the view, oldest first. `last`: the newest epoch that this coordinator has begun
/// in this view. The epoch of the answer is 0, and is the caller's to choose. Nothing: the group stays as it
/// is, or has to wait for members to begin, to be connected or to open the present epoch.
std::optional<std::variant<NewEpoch, AllClose>> decide(std::span<const MemberId> order, GroupStates states,
                                                       const std::optional<Begun>& last);

}  // namespace rdmc::member_groups
