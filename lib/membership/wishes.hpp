// The order in which one-time wishes for another root have arrived at the coordinator of a view. Only the
// newest wish counts. Earlier wishes never count again, even if the member that made the newest wish is gone.
// This class does no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "lib/membership/messages.hpp"

namespace rdmc::member_groups {

class Wishes {
 public:
  /// Replaces what the member reported before.
  void note(MemberId from, const State& state);
  void forget(MemberId member);
  /// Returns the arrival number of the member's wish. Later wishes have greater numbers. Returns nullopt if
  /// the member has no wish that counts.
  std::optional<std::uint64_t> arrival(MemberId member, GroupNumber group) const;

 private:
  /// A one-time wish of a member.
  struct Wish {
    std::uint64_t life = 0, number = 0;
    /// Nullopt if a later wish has arrived and has ended. This wish does not count any more.
    std::optional<std::uint64_t> arrival;
  };
  using ByGroup = std::map<GroupNumber, Wish>;
  void end(GroupNumber group, const Wish& wish);

  std::map<MemberId, ByGroup> wishes_;
  std::uint64_t arrived_ = 0;
};

}  // namespace rdmc::member_groups
