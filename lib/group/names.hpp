// The names of processes and groups that the members of groups use. Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace rdmc::group {

/// The number by which all peers name a process. The component that sets up the connections chooses it.
enum class PeerId : std::uint32_t {};

/// One use of a group's number. All members give it the same epoch. Each new use of the number must have a
/// higher epoch, because otherwise a late record of an earlier use could be mistaken for an early record of
/// this use.
struct GroupName {
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;
  /// 0 for the group itself. Other values name the rounds in which survivors of an earlier epoch get what
  /// they lack (Recovery).
  std::uint64_t part = 0;
  friend auto operator<=>(const GroupName&, const GroupName&) = default;
};

struct GroupNameHash {
  std::size_t operator()(const GroupName& name) const {
    return std::hash<std::uint64_t>{}((name.number * 0x9E37'79B9'7F4A'7C15 ^ name.epoch) * 31 + name.part);
  }
};

}  // namespace rdmc::group
