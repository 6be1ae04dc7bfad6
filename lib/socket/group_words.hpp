// The messages on the control channels between the root of a group and the other members. They report the
// members, the information by which members connect on the data plane, and the current view. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

enum class GroupWordKind : std::uint8_t {
  /// From a member: the member wants to join the group whose name is in `bytes`.
  join = 1,
  /// From the root: the receiver of this message has the number `node`. `nodes` are the members that are in
  /// the view or about to join it.
  welcome,
  /// From the root: the member `node` is about to join. If `event` is 1, the member has gone.
  peer,
  /// `bytes` is an offer made by Node::offer(). From a member: the offer is for `node`. From the root: the
  /// offer is from `node`.
  offer,
  /// From a member: the member is connected to all members that the welcome has named.
  ready,
  /// From the root: the view of `epoch`, with the members `nodes`. Message 0 of this view has the number
  /// `first` in the group. `next` is the number of the first message for a member that joins.
  view,
  /// From a member: the group of `epoch` has failed because of `node`, or for an unknown reason if there is
  /// no `node`. From the root: the receiver is removed, or, if there is no `node`, the group ends.
  failed,
};

struct GroupWord {
  GroupWordKind kind = GroupWordKind::join;
  /// In a view message: the kind of the rdmc_member_event whose subject is `node`.
  std::uint8_t event = 0;
  std::optional<std::uint32_t> node;  ///< the root is 0
  std::uint64_t epoch = 0, first = 0, next = 0;
  std::vector<std::uint32_t> nodes;
  std::vector<std::byte> bytes;

  friend bool operator==(const GroupWord&, const GroupWord&) = default;
};

/// Encodes `word`. The fields are, with their lengths in bytes: kind (1), event (1), a flag that is 1 if
/// there is a node and otherwise 0 (1), zero (1), node (4), epoch (8), first (8), next (8), the number of
/// nodes (4), each node (4), and `bytes`. All numbers are big endian.
std::vector<std::byte> encode(const GroupWord& word);
/// Errors: protocol_error if the bytes are cut off, the kind is unknown, or padding is not zero.
Result<GroupWord> decode_group_word(std::span<const std::byte> bytes);

}  // namespace rdmc::sockets
