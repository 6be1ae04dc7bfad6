// What the root of a group and its other members say to each other over their control channels: who there is,
// how to reach each other on the data path, and which view holds. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

enum class GroupWordKind : std::uint8_t {
  join = 1,  ///< a member: bytes, the group's name
  welcome,   ///< the root: node, who you are; nodes, who is there
  peer,      ///< the root: node is about to join
  offer,     ///< for or from node: bytes, as Node::offer gives them
  ready,     ///< a member: it is connected to all that the welcome has named
  view,      ///< the root: of epoch; nodes; its message 0 is number `first`; `next` is a joiner's first one
  failed,  ///< a member: the group of epoch has; node is to blame, or nobody. The root: you are out; without
           ///< a node: the group ends
};

struct GroupWord {
  GroupWordKind kind = GroupWordKind::join;
  std::uint8_t event = 0;             ///< of a view: rdmc_member_event's kind, which node is the subject of
  std::optional<std::uint32_t> node;  ///< 0: the root
  std::uint64_t epoch = 0, first = 0, next = 0;
  std::vector<std::uint32_t> nodes;
  std::vector<std::byte> bytes;

  friend bool operator==(const GroupWord&, const GroupWord&) = default;
};

/// kind 1, event 1, whether there is a node 1, 0, node 4, epoch 8, first 8, next 8, how many nodes 4, the
/// nodes 4 each, the bytes; big endian.
std::vector<std::byte> encode(const GroupWord& word);
/// Errors: protocol_error (cut off, unknown kind, padding).
Result<GroupWord> decode_group_word(std::span<const std::byte> bytes);

}  // namespace rdmc::sockets
