// The root's book of a group: who is about to join, who is in the view, and which view comes next. A view
// changes by one member at a time. The root alone decides, since the group ends with it. Pure; one thread.
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

  /// As rdmc_member_event has them.
  enum class Event : std::uint8_t { joined = 1, left = 2, failed = 3 };
  struct View {
    std::uint64_t epoch = 0;
    std::vector<std::uint32_t> nodes;  ///< the root first, then by age
    Event event{};
    std::optional<std::uint32_t> subject;  ///< of the event; nobody: those who were there, once more
  };

  /// A number that no other member has or had; nothing: there is no room.
  std::optional<std::uint32_t> join();
  /// Those who are there or about to be, but the root.
  std::vector<std::uint32_t> others() const;
  /// It is connected to all who were there before it.
  std::optional<View> ready(std::uint32_t node);
  /// Its channel has ended; `orderly`: it said so.
  std::optional<View> lost(std::uint32_t node, bool orderly);
  /// `reporter` says that the group of this epoch has failed through `blamed`, or it knows not whom. Who is
  /// to blame is out; another who blames the root is out itself. Only of and by those who were in that view.
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
  std::map<std::uint32_t, bool> members_;  // whether it is in the view
};

}  // namespace rdmc::sockets
