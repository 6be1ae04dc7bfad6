// The format of the bytes of a channel. The bytes are a preamble with the magic number and the protocol's
// version, and then frames. A frame consists of a 4-byte big-endian length and that number of bytes. One
// reserved length means "goodbye". The goodbye distinguishes a peer that closes from a peer that dies, also
// on a connection without TLS. This file does no I/O. A FrameReader owns the message that it assembles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::control {

using Message = std::vector<std::byte>;

inline constexpr std::array<std::byte, 4> kMagic{std::byte{'r'}, std::byte{'d'}, std::byte{'m'},
                                                 std::byte{'c'}};
/// The size of the preamble: the magic number (4 bytes), the version (2 bytes), and 2 bytes that are sent as
/// zero and ignored when they are received.
inline constexpr std::size_t kPreambleBytes = 8;
inline constexpr std::size_t kLengthBytes = 4;
/// The value of the length field that means goodbye. No body follows it.
inline constexpr std::uint32_t kGoodbye = 0xFFFF'FFFF;

std::array<std::byte, kPreambleBytes> encode_preamble(std::uint16_t version);
std::array<std::byte, kLengthBytes> encode_length(std::uint32_t length);

/// True if `bytes` can be the beginning of a preamble. The bytes are compared with the magic number, up to
/// the end of the shorter one.
bool may_be_magic(std::span<const std::byte> bytes);

/// Returns at most the first 16 bytes of `bytes` as text for an error. Printable bytes are copied, and others
/// are written as \xNN.
std::string excerpt(std::span<const std::byte> bytes);

/// Checks a peer's preamble. Errors: protocol_error if the magic number is wrong; version_mismatch if the
/// versions differ (the text names both versions).
Result<void> check_preamble(std::span<const std::byte, kPreambleBytes> preamble, std::uint16_t our_version);

class FrameReader {
 public:
  explicit FrameReader(std::uint32_t max_message_bytes) : limit_(max_message_bytes) {}

  /// Takes in all of `bytes` and appends each complete message to `messages`. Bytes after a goodbye are
  /// ignored. The used memory depends on the number of bytes that have arrived, not on the length that a
  /// frame claims. Errors: protocol_error if a message is longer than the limit.
  Result<void> feed(std::span<const std::byte> bytes, std::deque<Message>& messages);

  bool ended() const { return ended_; }
  /// True if a frame has begun to arrive and is not complete.
  bool mid_message() const { return length_filled_ > 0; }

 private:
  std::uint32_t limit_;
  std::array<std::byte, kLengthBytes> length_bytes_{};
  std::size_t length_filled_ = 0;
  std::uint32_t length_ = 0;
  Message body_;
  bool ended_ = false;
};

}  // namespace rdmc::control
