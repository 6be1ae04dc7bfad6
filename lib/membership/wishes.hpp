// In what order the wishes for another root have come to the coordinator of a view: the last one stands, and
// the others never count again, also when the member that has made the last one is gone. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "lib/membership/messages.hpp"

namespace rdmc::member_groups {

class Wishes {
 public:
  /// What a member tells now, in place of what it told before.
  void note(MemberId from, const State& state);
  void forget(MemberId member);
  /// The number of the member's wish: the later it came, the greater. Nothing: there is none that counts.
  std::optional<std::uint64_t> arrival(MemberId member, GroupNumber group) const;

 private:
  /// One that a member makes once.
  struct Wish {
    std::uint64_t life = 0, number = 0;
    std::optional<std::uint64_t> arrival;  ///< nothing: a later one has come, and is gone
  };
  using ByGroup = std::map<GroupNumber, Wish>;
  void end(GroupNumber group, const Wish& wish);

  std::map<MemberId, ByGroup> wishes_;
  std::uint64_t arrived_ = 0;
};

}  // namespace rdmc::member_groups
