// What the members of a group tell each other in SENDs on the data path: the length of a message that is
// about to begin, and grants of memory to write it into. Decoded from bytes that a peer chose; every field is
// checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/grant.hpp"

namespace rdmc::group {

/// Message number `message` of the group has `bytes` bytes. Sent to a member by its first source, before the
/// block.
struct Announcement {
  std::uint64_t message = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Announcement&, const Announcement&) = default;
};

struct GrantFrame {
  std::uint64_t message = 0;
  relay::Grant grant;
  friend bool operator==(const GrantFrame&, const GrantFrame&) = default;
};

using ControlFrame = std::variant<Announcement, GrantFrame>;

/// kind (1 byte), seven zero bytes, message (8), then bytes (8) or the encoded grant (32); big endian.
inline constexpr std::size_t kControlFrameBytes = 16 + relay::kGrantBytes;

/// Writes the frame to `out` and returns its length.
std::size_t encode(const ControlFrame& frame, std::span<std::byte, kControlFrameBytes> out);
/// Errors: protocol_error (length, kind, padding, a bad grant).
Result<ControlFrame> decode_control_frame(std::span<const std::byte> bytes);

}  // namespace rdmc::group
