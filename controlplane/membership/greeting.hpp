// What two processes say to each other on the control channel between them, before and beside the data path:
// who they are as members, and words too long for it. Stateless; any thread.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "controlplane/membership/data_path.hpp"
#include "controlplane/view/messages.hpp"

namespace rdmc::membership {

/// What a process says of itself when one of the two opens a channel between them.
struct Greeting {
  view::MemberId id{};
  Address address;  ///< of its control listener

  friend bool operator==(const Greeting&, const Greeting&) = default;
};
Bytes encode(const Greeting& greeting);
/// Errors: protocol_error.
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

/// The sender's queue pair is connected: it may be spoken to there.
struct Ready {};
/// For the failure view.
struct Words {
  Bytes bytes;
};
/// What the sender has in its window, in an epoch of both.
struct WindowGrant {
  Epoch epoch{};
  WindowKey window;
};
/// An application's, sent in that epoch.
struct Data {
  Epoch epoch{};
  Bytes bytes;
};
using Message = std::variant<Ready, Words, WindowGrant, Data>;

/// The longest of them, as encoded: a failure view's words.
inline constexpr std::uint32_t kMostMessageBytes = 1 + view::kMaxMessageBytes;
/// What a Data message adds to its bytes.
inline constexpr std::size_t kDataHeadBytes = 9;

Bytes encode(const Message& message);
/// Errors: protocol_error.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace rdmc::membership
