// The messages that two processes exchange on their control channel: greetings, and messages that are sent
// before the data path is connected or that are too long for it. Stateless. Any thread may use this.
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
  Address address;  ///< The address of its control listener.

  friend bool operator==(const Greeting&, const Greeting&) = default;
};
Bytes encode(const Greeting& greeting);
/// Errors: protocol_error.
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

/// The sender's queue pair is connected, so messages may be sent over the data path.
struct Ready {};
/// A message for the failure view.
struct Words {
  Bytes bytes;
};
/// The right to write into the sender's membership window, in this epoch. Both must be members in it.
struct WindowGrant {
  Epoch epoch{};
  WindowKey window;
};
/// A message of the application, sent in this epoch.
struct Data {
  Epoch epoch{};
  Bytes bytes;
};
using Message = std::variant<Ready, Words, WindowGrant, Data>;

/// The size of the longest encoded message. It is one for the failure view.
inline constexpr std::uint32_t kMostMessageBytes = 1 + view::kMaxMessageBytes;
/// The number of bytes that encoding adds to the bytes of a Data message.
inline constexpr std::size_t kDataHeadBytes = 9;

Bytes encode(const Message& message);
/// Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace rdmc::membership
