// The messages that two processes exchange on their control channel. They are greetings, messages that are
// sent before the data path is connected, and messages that are too long for the data path. The functions
// have no state and may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "controlplane/membership/data_path.hpp"
#include "controlplane/view/messages.hpp"

namespace rdmc::membership {

/// The description that a process gives of itself when a channel is opened between two processes.
struct Greeting {
  view::MemberId id{};
  Address address;  ///< The address of the process's control listener.

  friend bool operator==(const Greeting&, const Greeting&) = default;
};
Bytes encode(const Greeting& greeting);
/// Decodes a greeting. Errors: protocol_error.
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

/// Reports that the sender's queue pair is connected, so messages may be sent over the data path.
struct Ready {};
/// A message for the failure view.
struct Words {
  Bytes bytes;
};
/// Gives the receiver the right to write into the sender's membership window in this epoch. Sender and
/// receiver must be members in this epoch.
struct WindowGrant {
  Epoch epoch{};
  WindowKey window;
};
/// A message of the application, sent in the epoch `epoch`.
struct Data {
  Epoch epoch{};
  Bytes bytes;
};
using Message = std::variant<Ready, Words, WindowGrant, Data>;

/// The size of the longest encoded message, which is a message for the failure view.
inline constexpr std::uint32_t kMostMessageBytes = 1 + view::kMaxMessageBytes;
/// The number of bytes that encoding adds to the bytes of a Data message.
inline constexpr std::size_t kDataHeadBytes = 9;

Bytes encode(const Message& message);
/// Decodes a message. Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace rdmc::membership
