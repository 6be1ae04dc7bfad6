// What rping puts into its messages (rdma-core, librdmacm/examples/rping.c): where the other side may read or
// write, and the text that is carried there and back. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/types.hpp"

namespace rdmc::tools {

inline constexpr std::uint16_t kPingPort = 7174;
/// The text with the largest number, and what rping accepts at most.
inline constexpr std::uint32_t kLeastPingBytes = 32, kMostPingBytes = 64 * 1024;

struct PingBuffer {
  std::uint64_t address = 0;
  RemoteKey key{};
  std::uint32_t bytes = 0;
};
inline constexpr std::size_t kPingBufferBytes = 16;
std::array<std::byte, kPingBufferBytes> encode(const PingBuffer& buffer);
/// Nothing unless it is of that size.
std::optional<PingBuffer> decode_ping_buffer(std::span<const std::byte> message);

/// The text of ping `number` (from 0): "rdma-ping-N: ", then the characters from A to z over and over,
/// beginning one later each time, and a NUL. At least kLeastPingBytes.
void fill_ping(std::span<std::byte> text, std::uint32_t number);
/// The bytes up to and with the first NUL; all of them if there is none.
std::size_t ping_length(std::span<const std::byte> text);

}  // namespace rdmc::tools
