// The messages of a control connection between two processes, as values, and their encoding (peer.proto).
// What a peer may send is bounded here: whatever decode() returns keeps to the bounds. Stateless; any thread.
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

/// Grows when a message changes in a way that an older program would misunderstand.
inline constexpr std::uint32_t kVersion = 2;
/// The most bytes of a service's name.
inline constexpr std::size_t kMostServiceBytes = 512;
/// The most bytes of a greeting or a blob.
inline constexpr std::size_t kMostOfferBytes = 64 * 1024;
/// The most bytes of a Reset's text; longer ones are cut.
inline constexpr std::size_t kMostTextBytes = 1024;
/// The most proofs in one message.
inline constexpr std::size_t kMostProofs = 64;
/// The most bytes that an encoded message adds to the bytes that it carries.
inline constexpr std::uint32_t kMostOverheadBytes = 32;

enum class ChannelId : std::uint32_t {};

using Token = std::array<std::byte, 16>;  ///< a nonce or a secret
using Proof = std::array<std::byte, 32>;

/// What a service says of itself when a channel to it is opened, and what the other side needs to connect a
/// queue pair to it.
struct Offer {
  Bytes greeting;
  Bytes blob;

  friend bool operator==(const Offer&, const Offer&) = default;
};

struct Hello {
  Identity identity;
  Token nonce{};
  Token secret{};             ///< the dialer's
  std::vector<Proof> proofs;  ///< the listener's, of connections that the two have

  friend bool operator==(const Hello&, const Hello&) = default;
};
/// The dialer's proofs of the connections that the two have.
struct Known {
  std::vector<Proof> proofs;

  friend bool operator==(const Known&, const Known&) = default;
};
/// The listener's answer: which connection both use.
struct Choice {
  std::optional<Proof> proof;  ///< none: this one

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
/// Errors: protocol_error (not such a message, or beyond a bound), version_mismatch (a Hello of another
/// version).
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace rdmc::peer
