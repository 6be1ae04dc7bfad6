// The format of the bytes of a channel: a preamble with the magic number and the protocol's version, then
// frames. A frame is a 4-byte big-endian length and that many bytes. One reserved length means "goodbye". It
// distinguishes a peer that closes from a peer that dies, also on a connection without TLS. There is no I/O
// here. The reader owns the message that it assembles.
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
/// The magic number, the version (2 bytes), and 2 bytes that are sent as zero and ignored when received.
inline constexpr std::size_t kPreambleBytes = 8;
inline constexpr std::size_t kLengthBytes = 4;
/// The length field of the goodbye, which has no body.
inline constexpr std::uint32_t kGoodbye = 0xFFFF'FFFF;

std::array<std::byte, kPreambleBytes> encode_preamble(std::uint16_t version);
std::array<std::byte, kLengthBytes> encode_length(std::uint32_t length);

/// True if `bytes` and the magic number agree in the bytes that both have.
bool may_be_magic(std::span<const std::byte> bytes);

/// Returns at most 16 bytes of `bytes` for an error text. Printable bytes are copied, others are written as
/// \xNN.
std::string excerpt(std::span<const std::byte> bytes);

/// Checks a peer's preamble. Errors: protocol_error if the magic number is wrong, version_mismatch (the text
/// names both versions).
Result<void> check_preamble(std::span<const std::byte, kPreambleBytes> preamble, std::uint16_t our_version);

class FrameReader {
 public:
  explicit FrameReader(std::uint32_t max_message_bytes) : limit_(max_message_bytes) {}

  /// Takes in all of `bytes` and appends each complete message to `messages`. Bytes after a goodbye are
  /// ignored. The memory grows with the bytes that have arrived, not with the length that a frame claims.
  /// Errors: protocol_error if a message is longer than the limit.
  Result<void> feed(std::span<const std::byte> bytes, std::deque<Message>& messages);

  bool ended() const { return ended_; }
  /// True if a frame has begun and is not complete.
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
