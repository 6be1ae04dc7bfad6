// The messages of members about the groups of a membership, as values, and their encoding. decode() checks
// all bounds on what a member may send. Stateless; any thread may call any function. A "wish" is a request of
// a member's application for another root.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/include/rdmc/membership.hpp"

namespace rdmc::member_groups {

using Bytes = std::vector<std::byte>;

inline constexpr std::size_t kMostMembers = 256;  ///< the limit for one view
inline constexpr std::size_t kMostGroups = 64;    ///< the limit for one member in one membership

/// The progress of a member in the newest epoch that it knows.
enum class Stage : std::uint8_t {
  waiting,  ///< the member has been in no epoch
  going,    ///< the epoch has begun, and is not open yet
  open,
  /// The epoch is open; the application has called close(), and all members have what this member sent.
  closing,
  failed,
};

/// The options that all members of a group must choose alike: see GroupOptions.
struct CommonOptions {
  std::uint32_t block_bytes = 0, small_bytes = 0;
  std::uint32_t algorithm = 0;  ///< 0 for kAutomatic; else the algorithm's value plus 1

  friend bool operator==(const CommonOptions&, const CommonOptions&) = default;
};

/// The state of a member's part in one group.
struct GroupState {
  GroupNumber group{};
  std::uint64_t life = 0;  ///< changes whenever the member makes the group again
  Stage stage{};
  std::uint64_t epoch = 0;                      ///< the newest epoch that the member knows; 0 if none
  MemberId root{};                              ///< the root of that epoch
  std::vector<MemberId> participants{};         ///< the participants of that epoch
  std::vector<std::uint64_t> settled_wishes{};  ///< copied from the NewEpoch of that epoch; a new coordinator
                                                ///< needs them
  std::vector<MemberId> connected{};            ///< the members with which its node is connected
  std::uint64_t first_members = 1;
  CommonOptions options{};
  bool is_drained = false;  ///< for a root that must stop sending: all members have all that it has sent
  std::optional<MemberId> wish{};  ///< the root that its application requests
  bool wish_stands = false;        ///< if true, the wish is for every view; otherwise it is a one-time wish
  std::uint64_t wish_number = 0;   ///< the number of a one-time wish; it increases with each wish

  friend bool operator==(const GroupState&, const GroupState&) = default;
};

/// All that the coordinator of a view needs to know about a member. After a member has sent this, it accepts
/// no epoch that the coordinator of an earlier view has begun.
struct State {
  Epoch view{};
  std::vector<GroupState> groups{};

  friend bool operator==(const State&, const State&) = default;
};

/// The coordinator sends this when the group goes on in this epoch.
struct NewEpoch {
  GroupNumber group{};
  std::uint64_t epoch = 0;
  MemberId root{};
  std::vector<MemberId> participants{};  ///< in the order of the view
  /// For each participant: its wishes up to this number are settled. They were granted, or a later wish was
  /// granted instead.
  std::vector<std::uint64_t> settled_wishes{};

  friend bool operator==(const NewEpoch&, const NewEpoch&) = default;
};

/// The coordinator sends this when all participants of this epoch have called close().
struct AllClose {
  GroupNumber group{};
  std::uint64_t epoch = 0;

  friend bool operator==(const AllClose&, const AllClose&) = default;
};

/// The coordinator sends this to the root when another member is to become the root. The root must send
/// nothing more in this epoch.
struct Drain {
  GroupNumber group{};
  std::uint64_t epoch = 0;

  friend bool operator==(const Drain&, const Drain&) = default;
};

/// The coordinator sends this to a member whose part in the group ends. If `is_left_out` is set, the group
/// has gone on without the member, because it could not be reached. Otherwise the part was made with other
/// options than the group has.
struct Refusal {
  GroupNumber group{};
  std::uint64_t life = 0;
  bool is_left_out = false;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// The younger of two members sends this when its node has no connection and needs an offer.
struct NodeWanted {
  GroupNumber group{};

  friend bool operator==(const NodeWanted&, const NodeWanted&) = default;
};

using Message = std::variant<State, NewEpoch, AllClose, NodeWanted, Drain, Refusal>;

Bytes encode(const Message& message);
/// Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

/// The purpose for which a channel is opened.
enum class Purpose : std::uint8_t {
  messages,  ///< for the messages above
  question,  ///< to find out if the other side has the service
  node,      ///< to connect the nodes of a group; the offers hold their blobs
};

/// The greeting of the side that opens a channel: its own id, and the id that it expects of the other side.
struct Greeting {
  MemberId from{}, to{};
  Purpose purpose{};
  GroupNumber group{};  ///< the group of the nodes, with Purpose::node

  friend bool operator==(const Greeting&, const Greeting&) = default;
};
Bytes encode_greeting(const Greeting& greeting);
/// Errors: protocol_error.
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

}  // namespace rdmc::member_groups
