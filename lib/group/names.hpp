// What names things between the members of groups: processes, and groups of them. Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace rdmc::group {

/// A process, as all who talk to it call it. Chosen by whoever sets up the connections.
enum class PeerId : std::uint32_t {};

/// One use of a group's number. All its members give it the same epoch, a higher one each time that the
/// number is used again, so that what is late of an earlier use is told from what is early of this one.
struct GroupName {
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;
  /// 0: the group. Others are the rounds in which survivors of an earlier epoch get what they lack
  /// (Recovery).
  std::uint64_t part = 0;
  friend auto operator<=>(const GroupName&, const GroupName&) = default;
};

struct GroupNameHash {
  std::size_t operator()(const GroupName& name) const {
    return std::hash<std::uint64_t>{}((name.number * 0x9E37'79B9'7F4A'7C15 ^ name.epoch) * 31 + name.part);
  }
};

}  // namespace rdmc::group
