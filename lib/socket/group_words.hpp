// The control messages between the root of a group and the other members, on their control channels: who the
// members are, how to reach each other on the data plane, and which view is current. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

enum class GroupWordKind : std::uint8_t {
  /// From a member: it wants to join the group whose name is in `bytes`.
  join = 1,
  /// From the root: the receiver's number is `node`. The members that are there or about to join are `nodes`.
  welcome,
  /// From the root: `node` is about to join, or, with event 1, has gone.
  peer,
  /// `bytes` is an offer of Node::offer(). From a member: the offer is for `node`. From the root: the offer
  /// is from `node`.
  offer,
  /// From a member: it is connected to all members that the welcome has named.
  ready,
  /// From the root: the view of `epoch` with the members `nodes`. Its message 0 has the number `first` in the
  /// group. `next` is the first message for a member that joins.
  view,
  /// From a member: the group of `epoch` has failed because of `node`, or of an unknown cause. From the root:
  /// the receiver is removed. Without a node: the group ends.
  failed,
};

struct GroupWord {
  GroupWordKind kind = GroupWordKind::join;
  /// In a view message: the kind of the rdmc_member_event whose subject is `node`.
  std::uint8_t event = 0;
  std::optional<std::uint32_t> node;  ///< 0 is the root
  std::uint64_t epoch = 0, first = 0, next = 0;
  std::vector<std::uint32_t> nodes;
  std::vector<std::byte> bytes;

  friend bool operator==(const GroupWord&, const GroupWord&) = default;
};

/// The layout, with the number of bytes of each field: kind 1, event 1, 1 if there is a node 1, zero 1, node
/// 4, epoch 8, first 8, next 8, number of nodes 4, each node 4, then `bytes`. All numbers are big endian.
std::vector<std::byte> encode(const GroupWord& word);
/// Errors: protocol_error (cut off, unknown kind, or padding that is not zero).
Result<GroupWord> decode_group_word(std::span<const std::byte> bytes);

}  // namespace rdmc::sockets
