// A block grant: the message by which a receiver permits each of its sources to write blocks directly into
// its memory. A grant is sent with a SEND. Its bytes come from a peer, so decode_grant() checks every field
// before the field is used. The types are plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::relay {

/// Permits a source to write the blocks below `limit`. Block b goes to remote_address + (b mod slots) * block
/// size. A later grant of the same memory only raises `limit`. A grant with `first_only` covers one block:
/// the first block that this source sends, at remote_address itself. Such a grant can be given before the
/// receiver knows the message's length.
struct BlockGrant {
  std::uint64_t limit = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t slots = 0;
  RemoteKey key{};
  /// The number of the message among the messages that are open at the receiver. The immediate of every block
  /// contains this number.
  std::uint16_t slot_id = 0;
  bool first_only = false;  ///< limit and slots must then be 1
  friend bool operator==(const BlockGrant&, const BlockGrant&) = default;
};

/// The encoded size, big endian: limit, remote_address, slots (8 bytes each), key (4), slot_id (2), flags
/// (1; bit 0 is first_only), a zero byte.
inline constexpr std::size_t kGrantBytes = 32;

std::array<std::byte, kGrantBytes> encode(const BlockGrant& grant);
/// Decodes exactly kGrantBytes bytes. Errors: protocol_error (wrong size, zero limit or slots, unknown
/// flags, non-zero padding, a first_only grant for more than one block).
Result<BlockGrant> decode_grant(std::span<const std::byte> bytes);

/// The immediate of a block's WRITE: slot_id and the low 16 bits of the block's index.
inline constexpr std::uint32_t kBlockMask = 0xFFFF;
constexpr std::uint32_t immediate_of(std::uint16_t slot_id, std::uint64_t block) {
  return std::uint32_t{slot_id} << 16 | (static_cast<std::uint32_t>(block) & kBlockMask);
}
constexpr std::uint16_t slot_id_of(std::uint32_t immediate) {
  return static_cast<std::uint16_t>(immediate >> 16);
}

}  // namespace rdmc::relay
