// A grant: what a receiver tells each of its sources so that they may write blocks straight into its memory.
// It travels in a SEND, so it is decoded from bytes that a peer chose: every field is checked before use.
// Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::relay {

/// Blocks below `limit` may be written, block b at remote_address + (b mod slots) * block size. Later grants
/// of the same memory only raise `limit`. A `first_only` grant covers one block, the first one that this
/// source sends, at remote_address itself; it can be given before the receiver knows the length.
struct BlockGrant {
  std::uint64_t limit = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t slots = 0;
  RemoteKey key{};
  std::uint16_t slot_id =
      0;                    ///< names the message among those open at the receiver; echoed in every immediate
  bool first_only = false;  ///< limit and slots are 1 then
  friend bool operator==(const BlockGrant&, const BlockGrant&) = default;
};

/// limit, remote_address, slots (8 bytes each), key (4), slot_id (2), flags (1; bit 0: first_only), a zero
/// byte; big endian.
inline constexpr std::size_t kGrantBytes = 32;

std::array<std::byte, kGrantBytes> encode(const BlockGrant& grant);
/// Exactly kGrantBytes. Errors: protocol_error (size, zero limit or slots, unknown flags, non-zero padding).
Result<BlockGrant> decode_grant(std::span<const std::byte> bytes);

/// The immediate data of a block's WRITE: slot_id and the low 16 bits of the block's index.
inline constexpr std::uint32_t kBlockMask = 0xFFFF;
constexpr std::uint32_t immediate_of(std::uint16_t slot_id, std::uint64_t block) {
  return std::uint32_t{slot_id} << 16 | (static_cast<std::uint32_t>(block) & kBlockMask);
}
constexpr std::uint16_t slot_id_of(std::uint32_t immediate) {
  return static_cast<std::uint16_t>(immediate >> 16);
}

}  // namespace rdmc::relay
