// The root's record of a group's members: who is about to join, who is in the view, and which view comes
// next. A view changes by one member at a time. The root alone decides, because the group ends with the root.
// A core without I/O. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace rdmc::sockets {

class GroupBook {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::size_t kMostMembers = 256;

  /// The values are those of rdmc_member_event.
  enum class Event : std::uint8_t { joined = 1, left = 2, failed = 3 };
  struct View {
    std::uint64_t epoch = 0;
    std::vector<std::uint32_t> nodes;  ///< the root first, then the other members by age
    Event event{};
    /// The member that the event is about. Empty if the view has the same members as the last one.
    std::optional<std::uint32_t> subject;
  };

  /// Returns a number that no other member has or had, or nullopt if the group is full.
  std::optional<std::uint32_t> join();
  /// The members that are in the view or about to join it, without the root.
  std::vector<std::uint32_t> others() const;
  /// `node` is connected to all members that were there before it. Returns the view with it.
  std::optional<View> ready(std::uint32_t node);
  /// The channel of `node` has ended. `orderly`: the member closed it in order. Returns the view without it,
  /// if it was in one.
  std::optional<View> lost(std::uint32_t node, bool orderly);
  /// `reporter` says that the group of this epoch has failed because of `blamed`, or empty if it does not
  /// know the cause. The blamed member is removed. A member that blames the root is removed itself. A report
  /// counts only if it is about the current epoch, and if its reporter and the blamed member are in the view.
  std::optional<View> failed(std::uint32_t reporter, std::uint64_t epoch,
                             std::optional<std::uint32_t> blamed);

  bool contains(std::uint32_t node) const { return members_.contains(node); }
  std::uint64_t epoch() const { return epoch_; }

 private:
  bool is_in(std::uint32_t node) const;
  std::optional<View> remove(std::uint32_t node, Event event);
  View next(Event event, std::optional<std::uint32_t> subject);

  std::uint32_t newest_ = kRoot;
  std::uint64_t epoch_ = 0;
  std::map<std::uint32_t, bool> members_;  // the value is true if the member is in the view
};

}  // namespace rdmc::sockets
