// What both ends of a channel must agree on (the key, the protocol's version) and the bounds that keep a peer
// from costing more than it may. Plain values; copied into every connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "controlplane/auth/tls.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// No authentication and no encryption, when the user said --insecure. Both ends must: one that did not
/// refuses.
struct Insecure {};
using Security = std::variant<TlsContext, Insecure>;

/// Grows when a control message changes in a way that an older program would misunderstand.
inline constexpr std::uint16_t kProtocolVersion = 1;

struct ChannelOptions {
  Security security;
  /// The longest message, either way; at most kMaxMessageBytes.
  std::uint32_t max_message_bytes = 16 << 20;
  /// send() says would_block beyond this many bytes not yet handed to the kernel.
  std::size_t max_queued_bytes = 32 << 20;
  /// From the TCP connection to both preambles exchanged.
  Duration handshake_deadline = seconds(5);
  /// How long close() waits for the peer to have read everything.
  Duration close_deadline = seconds(5);
  /// TCP_USER_TIMEOUT: what was sent must be acknowledged, and a full peer must read again, in this time. A
  /// silent peer is probed so that it is found out in about twice this time. Milliseconds resolution.
  Duration silence_limit = seconds(10);
  std::uint16_t protocol_version = kProtocolVersion;
};

}  // namespace rdmc::control
