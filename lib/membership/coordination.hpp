// The decisions of the group coordinator, which is the oldest member of a view: which members are in the next
// epoch of a group, and which of them is the root. These decisions depend only on the reports of all members
// of the view and on the order of the view. All functions are pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <variant>

#include "lib/membership/messages.hpp"

namespace rdmc::member_groups {

/// The states of the members that have made the group.
using GroupStates = std::map<MemberId, GroupState>;

/// An epoch that the coordinator has begun, and the lives of the participants to which it has announced the
/// epoch.
struct Begun {
  NewEpoch epoch;
  std::map<MemberId, std::uint64_t> lives;
};

/// The decision to wait: a new epoch is needed, but two members that would be in it are not connected with
/// each other.
struct Unconnected {};

using Decision = std::variant<NewEpoch, AllClose, Drain, Unconnected>;

/// The knowledge of the coordinator in addition to the reports of the members.
struct Circumstances {
  /// Members of the view that have reported nothing in it for so long that the coordinator no longer waits
  /// for them.
  std::vector<MemberId> silent{};
  /// The time limit for unconnected members to connect has passed.
  bool is_time_over = false;
  /// The order in which one-time wishes have arrived. The newest wish has the greatest number.
  std::map<MemberId, std::uint64_t> arrivals{};
};

/// Returns the members whose options differ from the group's. The group's options are those of the members of
/// its last epoch, and before the first epoch those of the oldest member.
std::vector<MemberId> with_other_options(std::span<const MemberId> order, GroupStates states,
                                         const std::optional<Begun>& last);

/// Returns the members without which the group has gone on. They lack the messages that were sent since, so
/// they cannot continue in the group.
std::vector<MemberId> left_out(GroupStates states, const std::optional<Begun>& last);

/// Decides what to do next about a group. `order` has the members of the view, the oldest first. `states`
/// must not contain members with other options or members that were left out. `last` is the newest epoch that
/// this coordinator has begun in this view. A returned NewEpoch has epoch 0, and the caller must choose its
/// number.
/// Returns nullopt in three cases: the group stays as it is, it has to wait until members begin or open the
/// present epoch, or too many members are silent. If the root lives and another member is to become the root,
/// the group is drained first. Until it is drained, each call returns Drain again.
std::optional<Decision> decide(std::span<const MemberId> order, GroupStates states,
                               const std::optional<Begun>& last, const Circumstances& now = {});

}  // namespace rdmc::member_groups
