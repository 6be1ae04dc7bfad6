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

/// A new epoch is needed, and two members that would be in it are not connected with each other.
struct Unconnected {};

using Decision = std::variant<NewEpoch, AllClose, Drain, Unconnected>;

/// What the coordinator knows beside what the members have told.
struct Circumstances {
  /// Members of the view that have told nothing in it for so long that they are not waited for any more.
  std::vector<MemberId> silent{};
  /// Members that are not connected with each other have had their time to be.
  bool is_time_over = false;
  /// In what order the wishes that members make once have arrived: the last one has the greatest number.
  std::map<MemberId, std::uint64_t> arrivals{};
};

/// Those whose options are not the group's. What the members of its last epoch have chosen counts, and before
/// the first one what the oldest member has.
std::vector<MemberId> with_other_options(std::span<const MemberId> order, GroupStates states,
                                         const std::optional<Begun>& last);

/// Those without whom the group has gone on. They lack what was sent since, so they cannot be in it as
/// before.
std::vector<MemberId> left_out(GroupStates states, const std::optional<Begun>& last);

/// `order`: the members of the view, oldest first. `states`: without those who have other options or were
/// left out. `last`: the newest epoch that this coordinator has begun in this view. The epoch of the answer
/// is 0, and is the caller's to choose. Nothing: the group stays as it is, or has to wait for members to
/// begin or to open the present epoch, or the silent ones are too many to go on without them. The root of a
/// group whose root lives changes when it is drained: until then the Drain is told it again and again.
std::optional<Decision> decide(std::span<const MemberId> order, GroupStates states,
                               const std::optional<Begun>& last, const Circumstances& now = {});

}  // namespace rdmc::member_groups
