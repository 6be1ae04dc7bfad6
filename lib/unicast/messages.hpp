// The messages that two endpoints exchange on the control plane, as values, and their encoding
// (unicast.proto). Decoding checks all bounds on what a peer may send. Stateless; any thread may call any
// function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::unicast {

using Bytes = std::vector<std::byte>;

/// The protocol version. It increases when a message changes in a way that an older program would
/// misunderstand.
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kMostNameBytes = 255;
inline constexpr std::size_t kMostPrivateBytes = 4096;
/// The maximum length of the text of Ended, in bytes. Longer texts are cut.
inline constexpr std::size_t kMostTextBytes = 1024;

struct Greeting {
  std::string name;
  Bytes private_data;

  friend bool operator==(const Greeting&, const Greeting&) = default;
};

struct Ready {};
struct Ended {
  Error cause;
};
using Message = std::variant<Ready, Ended>;

Bytes encode(const Greeting& greeting);
/// Decodes a greeting. Errors: protocol_error if the bytes are not a greeting or exceed a bound,
/// version_mismatch.
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

Bytes encode(const Message& message);
/// Decodes a message. Errors: protocol_error if the bytes are not a message.
Result<Message> decode_message(std::span<const std::byte> bytes);

}  // namespace rdmc::unicast
