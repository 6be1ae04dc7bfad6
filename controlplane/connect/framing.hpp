// The bytes inside a channel: a preamble that says who we are, then frames of a 4-byte big-endian length and
// that many bytes. One length stands for "goodbye", so that a peer that closed is told from one that died, in
// plaintext too. Pure; the reader owns the message it is assembling.
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
/// Magic, version (2 bytes), and 2 bytes that are zero now and ignored when received.
inline constexpr std::size_t kPreambleBytes = 8;
inline constexpr std::size_t kLengthBytes = 4;
/// The length of the frame that ends a channel; it has no body.
inline constexpr std::uint32_t kGoodbye = 0xFFFF'FFFF;

std::array<std::byte, kPreambleBytes> encode_preamble(std::uint16_t version);
std::array<std::byte, kLengthBytes> encode_length(std::uint32_t length);

/// True when `bytes` begins like the magic, as far as both go.
bool may_be_magic(std::span<const std::byte> bytes);

/// The first bytes of what a peer said, for an error text: printable ones as they are, others as \xNN, at
/// most 16.
std::string excerpt(std::span<const std::byte> bytes);

/// Checks a peer's preamble. Errors: protocol_error (other magic), version_mismatch (naming both).
Result<void> check_preamble(std::span<const std::byte, kPreambleBytes> preamble, std::uint16_t our_version);

class FrameReader {
 public:
  explicit FrameReader(std::uint32_t max_message_bytes) : limit_(max_message_bytes) {}

  /// Takes all of `bytes`; appends each message that is complete. What follows a goodbye is ignored. Memory
  /// grows with what has arrived, not with what a length claims. Errors: protocol_error (longer than the
  /// limit).
  Result<void> feed(std::span<const std::byte> bytes, std::deque<Message>& messages);

  bool ended() const { return ended_; }
  /// True when a message has begun and not ended.
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
