// The root's list of a group's members: the members that are about to join, the members in the view, and the
// next view. A view changes by one member at a time. The root alone decides about views, because the group
// ends with the root. A core without I/O. Only one thread may use an object at a time.
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
    std::vector<std::uint32_t> nodes;  ///< the root first, then the other members, the oldest one first
    Event event{};
    /// The member that the event is about. Empty if the view has the same members as the view before it.
    std::optional<std::uint32_t> subject;
  };

  /// Adds a member that is about to join. Returns its number, which no other member has or had. Returns
  /// nullopt if the group is full.
  std::optional<std::uint32_t> join();
  /// Returns the members that are in the view or about to join it, without the root.
  std::vector<std::uint32_t> others() const;
  /// Must be called when `node` is connected to all members that were in the group before it. Returns the
  /// next view, which contains `node`.
  std::optional<View> ready(std::uint32_t node);
  /// Must be called when the channel of `node` has ended. `orderly` is true if the member closed the channel
  /// in order. If `node` was in the view, returns the next view, which does not contain `node`.
  std::optional<View> lost(std::uint32_t node, bool orderly);
  /// Must be called when `reporter` reports that the group of this epoch has failed because of `blamed`.
  /// `blamed` is empty if the reporter does not know the cause. Returns the next view, without the blamed
  /// member. If the reporter blames the root, removes the reporter instead. If `blamed` is empty, the next
  /// view has the same members. Ignores a report about another epoch, and a report whose reporter or blamed
  /// member is not in the view.
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
