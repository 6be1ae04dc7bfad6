#include "lib/socket/group_words.hpp"

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::sockets {
namespace {

constexpr std::size_t kWordHeadBytes = 36;

}  // namespace

std::vector<std::byte> encode(const GroupWord& word) {
  std::vector<std::byte> bytes(kWordHeadBytes + 4 * word.nodes.size());
  bytes[0] = static_cast<std::byte>(word.kind);
  bytes[1] = static_cast<std::byte>(word.event);
  bytes[2] = static_cast<std::byte>(word.node.has_value());
  store_be(&bytes[4], word.node.value_or(0));
  store_be(&bytes[8], word.epoch);
  store_be(&bytes[16], word.first);
  store_be(&bytes[24], word.next);
  store_be(&bytes[32], static_cast<std::uint32_t>(word.nodes.size()));
  for (std::size_t i = 0; i < word.nodes.size(); ++i) store_be(&bytes[kWordHeadBytes + 4 * i], word.nodes[i]);
  bytes.insert(bytes.end(), word.bytes.begin(), word.bytes.end());
  return bytes;
}

Result<GroupWord> decode_group_word(std::span<const std::byte> bytes) {
  if (bytes.size() < kWordHeadBytes) return fail(Errc::protocol_error, "a group's word that is cut off");
  const auto kind = std::to_integer<std::uint8_t>(bytes[0]);
  if (kind < value_of(GroupWordKind::join) || kind > value_of(GroupWordKind::failed))
    return fail(Errc::protocol_error, "a group's word of an unknown kind");
  const auto has_node = std::to_integer<std::uint8_t>(bytes[2]);
  const auto node = load_be<std::uint32_t>(&bytes[4]);
  if (has_node > 1 || (has_node == 0 && node != 0) || bytes[3] != std::byte{})
    return fail(Errc::protocol_error, "a group's word with padding");
  const auto count = load_be<std::uint32_t>(&bytes[32]);
  if (count > (bytes.size() - kWordHeadBytes) / 4)
    return fail(Errc::protocol_error, "a group's word cut off");
  GroupWord word{.kind = GroupWordKind{kind},
                 .event = std::to_integer<std::uint8_t>(bytes[1]),
                 .node = {},
                 .epoch = load_be<std::uint64_t>(&bytes[8]),
                 .first = load_be<std::uint64_t>(&bytes[16]),
                 .next = load_be<std::uint64_t>(&bytes[24]),
                 .nodes = {},
                 .bytes = {}};
  if (has_node == 1) word.node = node;
  for (std::uint32_t i = 0; i < count; ++i)
    word.nodes.push_back(load_be<std::uint32_t>(&bytes[kWordHeadBytes + 4 * i]));
  const auto rest = bytes.subspan(kWordHeadBytes + std::size_t{4} * count);
  word.bytes.assign(rest.begin(), rest.end());
  return word;
}

}  // namespace rdmc::sockets
