// Encodes numbers in as few bytes as they need (LEB128), for the block maps and plans that members send to
// each other. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rdmc {

/// Appends `value` in 1 to 10 bytes.
inline void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

/// Removes one number from the front of `in`. A number has only one valid encoding: without trailing zero
/// groups, and without bits beyond the 64th. Returns nullopt if the encoding is invalid or incomplete; `in`
/// may be shorter then.
inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto group = std::to_integer<std::uint64_t>(in.front());
    in = in.subspan(1);
    if (shift == 63 && group > 1) return std::nullopt;
    value |= (group & 0x7F) << shift;
    if (group < 0x80) return group == 0 && shift > 0 ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

}  // namespace rdmc
