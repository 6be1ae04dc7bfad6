// What members tell each other about the groups of a membership, as values, and their encoding. What a member
// may send is bounded here: whatever decode() returns keeps to the bounds. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/include/rdmc/membership.hpp"

namespace rdmc::member_groups {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kMostMembers = 256;  ///< of a view
inline constexpr std::size_t kMostGroups = 64;    ///< of one member in one membership

/// What a member has made of the epoch that it was told last.
enum class Stage : std::uint8_t {
  waiting,  ///< it has been in no epoch
  going,    ///< the epoch has begun, and is not open yet
  open,
  closing,  ///< open; the application wishes the end, and all that it has sent is everywhere
  failed,
};

/// What all members of a group must choose alike: see GroupOptions.
struct CommonOptions {
  std::uint32_t block_bytes = 0, small_bytes = 0;
  std::uint32_t algorithm = 0;  ///< 0: automatic; else one more than its value

  friend bool operator==(const CommonOptions&, const CommonOptions&) = default;
};

/// A member's part in one group.
struct GroupState {
  GroupNumber group{};
  std::uint64_t life = 0;  ///< another one whenever the member makes the group again
  Stage stage{};
  std::uint64_t epoch = 0;                      ///< the newest that it was told; 0: none
  MemberId root{};                              ///< of that epoch
  std::vector<MemberId> participants{};         ///< of that epoch
  std::vector<std::uint64_t> settled_wishes{};  ///< as that epoch said: a new coordinator may not know it
  std::vector<MemberId> connected{};            ///< those with whom its node is connected
  std::uint64_t first_members = 1;
  CommonOptions options{};
  bool is_drained = false;         ///< a root that sends no more: all that it has sent is everywhere
  std::optional<MemberId> wish{};  ///< the root that its application asks for, …
  bool wish_stands = false;        ///< … in every view, and not once
  std::uint64_t wish_number = 0;   ///< of one that it asks for once: greater than those before it

  friend bool operator==(const GroupState&, const GroupState&) = default;
};

/// All that the coordinator of a view needs to know of a member. Who sends it takes no epoch any more that an
/// earlier view's coordinator has begun.
struct State {
  Epoch view{};
  std::vector<GroupState> groups{};

  friend bool operator==(const State&, const State&) = default;
};

/// By the coordinator: the group goes on in this epoch.
struct NewEpoch {
  GroupNumber group{};
  std::uint64_t epoch = 0;
  MemberId root{};
  std::vector<MemberId> participants{};         ///< in the order of the view
  std::vector<std::uint64_t> settled_wishes{};  ///< of each participant: its wishes up to this number are
                                                ///< granted, or a later one is instead

  friend bool operator==(const NewEpoch&, const NewEpoch&) = default;
};

/// By the coordinator: all participants of this epoch wish the group's end.
struct AllClose {
  GroupNumber group{};
  std::uint64_t epoch = 0;

  friend bool operator==(const AllClose&, const AllClose&) = default;
};

/// By the coordinator, to the root: another member is to be the root. Send nothing more in this epoch.
struct Drain {
  GroupNumber group{};
  std::uint64_t epoch = 0;

  friend bool operator==(const Drain&, const Drain&) = default;
};

/// By the coordinator: this part in the group was made with other options than the group has. Or the others
/// have gone on without it, because it could not be reached.
struct Refusal {
  GroupNumber group{};
  std::uint64_t life = 0;
  bool is_left_out = false;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// By the younger of two members: its node has no connection, and needs an offer.
struct NodeWanted {
  GroupNumber group{};

  friend bool operator==(const NodeWanted&, const NodeWanted&) = default;
};

using Message = std::variant<State, NewEpoch, AllClose, NodeWanted, Drain, Refusal>;

Bytes encode(const Message& message);
/// Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

/// What a channel is opened for.
enum class Purpose : std::uint8_t {
  messages,  ///< those above
  question,  ///< only whether the other side has this service
  node,      ///< to connect the nodes of a group: the offers hold their blobs
};

/// What the side that opens a channel says of itself, and whom it takes the other side for.
struct Greeting {
  MemberId from{}, to{};
  Purpose purpose{};
  GroupNumber group{};  ///< of the nodes

  friend bool operator==(const Greeting&, const Greeting&) = default;
};
Bytes encode_greeting(const Greeting& greeting);
/// Errors: protocol_error.
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

}  // namespace rdmc::member_groups
