// The messages of a control connection between two processes, as values, and their encoding (peer.proto).
// decode() checks all limits for what a peer may send, and its results keep these limits. Stateless. May be
// used from any thread.
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
/// The longest text of a Reset, in bytes. Longer texts are cut.
inline constexpr std::size_t kMostTextBytes = 1024;
/// The largest number of proofs in one message.
inline constexpr std::size_t kMostProofs = 64;
/// The largest number of bytes that the encoding adds to the bytes that a message carries.
inline constexpr std::uint32_t kMostOverheadBytes = 32;

enum class ChannelId : std::uint32_t {};

using Token = std::array<std::byte, 16>;  ///< A nonce or a secret.
using Proof = std::array<std::byte, 32>;

/// The greeting with which a service describes itself when a channel to it is opened, and the blob with which
/// the other side can connect a queue pair to it.
struct Offer {
  Bytes greeting;
  Bytes blob;

  friend bool operator==(const Offer&, const Offer&) = default;
};

struct Hello {
  Identity identity;
  Token nonce{};
  Token secret{};             ///< Sent by the dialer.
  std::vector<Proof> proofs;  ///< Sent by the listener, for connections that the two already have.

  friend bool operator==(const Hello&, const Hello&) = default;
};
/// The dialer's proofs of the connections that the two processes have.
struct Known {
  std::vector<Proof> proofs;

  friend bool operator==(const Known&, const Known&) = default;
};
/// The listener's answer to Known: the connection that both sides use.
struct Choice {
  std::optional<Proof> proof;  ///< A proof of that connection. Nullopt means this connection.

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
/// Errors: protocol_error if it is not such a message or if it exceeds a limit, version_mismatch if it is a
/// Hello of another version.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace rdmc::peer
