// The contents of rping's messages (rdma-core, librdmacm/examples/rping.c): the memory that the peer may read
// or write, and the text that is transferred to the server and back. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/types.hpp"

namespace rdmc::tools {

inline constexpr std::uint16_t kPingPort = 7174;
/// The shortest text that has space for the largest number, and the longest text that rping accepts.
inline constexpr std::uint32_t kLeastPingBytes = 32, kMostPingBytes = 64 * 1024;

struct PingBuffer {
  std::uint64_t address = 0;
  RemoteKey key{};
  std::uint32_t bytes = 0;
};
inline constexpr std::size_t kPingBufferBytes = 16;
std::array<std::byte, kPingBufferBytes> encode(const PingBuffer& buffer);
/// Decodes a message. Returns nullopt if the message does not have the size of a PingBuffer.
std::optional<PingBuffer> decode_ping_buffer(std::span<const std::byte> message);

/// Fills in the text of ping `number`, which counts from 0. The text is "rdma-ping-N: ", then the characters
/// from A to z repeatedly, and a NUL. For each further number, the characters begin one character later.
/// Precondition: `text` has at least kLeastPingBytes bytes.
void fill_ping(std::span<std::byte> text, std::uint32_t number);
/// Returns the number of bytes up to and including the first NUL. Returns the number of all bytes if there is
/// no NUL.
std::size_t ping_length(std::span<const std::byte> text);

}  // namespace rdmc::tools
