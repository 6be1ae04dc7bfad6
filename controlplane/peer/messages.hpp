// The messages of a control connection between two processes, as values, and their encoding (peer.proto).
// decode() checks all limits for the messages of a peer, so its results are within these limits. The
// functions have no state. They may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "controlplane/peer/identity.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::peer {

using Bytes = std::vector<std::byte>;

/// The version of the messages. It must grow when a message changes in a way that an older program would
/// misunderstand.
inline constexpr std::uint32_t kVersion = 2;
/// The longest name of a service, in bytes.
inline constexpr std::size_t kMostServiceBytes = 512;
/// The longest greeting or blob, in bytes.
inline constexpr std::size_t kMostOfferBytes = 64 * 1024;
/// The longest text of a Reset, in bytes. A longer text is cut.
inline constexpr std::size_t kMostTextBytes = 1024;
/// The largest number of proofs in one message.
inline constexpr std::size_t kMostProofs = 64;
/// The largest number of bytes that the encoding of a message adds to the bytes of its content.
inline constexpr std::uint32_t kMostOverheadBytes = 32;

enum class ChannelId : std::uint32_t {};

using Token = std::array<std::byte, 16>;  ///< A nonce or a secret.
using Proof = std::array<std::byte, 32>;

/// The greeting by which a service describes itself when a channel to it is opened, and the blob by which the
/// other side can connect a queue pair to it.
struct Offer {
  Bytes greeting;
  Bytes blob;

  friend bool operator==(const Offer&, const Offer&) = default;
};

struct Hello {
  Identity identity;
  Token nonce{};
  Token secret{};  ///< Sent by the dialer.
  /// Sent by the listener. Proves the connections that the two processes already have.
  std::vector<Proof> proofs;

  friend bool operator==(const Hello&, const Hello&) = default;
};
/// The dialer's proofs of the connections that the two processes have.
struct Known {
  std::vector<Proof> proofs;

  friend bool operator==(const Known&, const Known&) = default;
};
/// The listener's answer to Known. It names the connection that both sides use.
struct Choice {
  /// A proof of the connection that both sides use. Nullopt if both sides use the connection on which this
  /// message is sent.
  std::optional<Proof> proof;

  friend bool operator==(const Choice&, const Choice&) = default;
};
struct Open {
  ChannelId channel{};
  std::string service;
  Offer offer;

  friend bool operator==(const Open&, const Open&) = default;
};
struct Accept {
  ChannelId channel{};
  Offer offer;

  friend bool operator==(const Accept&, const Accept&) = default;
};
struct Data {
  ChannelId channel{};
  Bytes body;

  friend bool operator==(const Data&, const Data&) = default;
};
struct Close {
  ChannelId channel{};

  friend bool operator==(const Close&, const Close&) = default;
};
struct Reset {
  ChannelId channel{};
  Errc code{};
  std::string text;

  friend bool operator==(const Reset&, const Reset&) = default;
};
using Message = std::variant<Hello, Open, Accept, Data, Close, Reset, Known, Choice>;

Bytes encode(const Message& message);
/// Decodes a message. Errors: protocol_error if `bytes` is no such message or if it exceeds a limit;
/// version_mismatch if it is a Hello of another version.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace rdmc::peer
