// The values that both ends of a channel must agree on (the key, the protocol's version), and limits for what
// one peer may cost. Plain values, which are copied into every connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "controlplane/auth/tls.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// No authentication and no encryption, for users that give --insecure. Both ends must use it. An end that
/// does not use it refuses the other end.
struct Insecure {};
using Security = std::variant<TlsContext, Insecure>;

/// The version of the protocol. It must grow when a control message changes in a way that an older program
/// would misunderstand.
inline constexpr std::uint16_t kProtocolVersion = 1;

struct ChannelOptions {
  Security security;
  /// The length of the longest message in either direction. Must be at most kMaxMessageBytes.
  std::uint32_t max_message_bytes = 16 << 20;
  /// The largest number of queued bytes that are not yet handed to the kernel. Beyond it, send() returns
  /// would_block.
  std::size_t max_queued_bytes = 32 << 20;
  /// The time limit from the TCP connection until both preambles are exchanged.
  Duration handshake_deadline = seconds(5);
  /// How long close() waits until the peer has read everything.
  Duration close_deadline = seconds(5);
  /// The value of TCP_USER_TIMEOUT, with a resolution of milliseconds. Within this time the peer must
  /// acknowledge what was sent, and a peer with a full receive buffer must read again. An idle peer is
  /// probed, so its death is detected after about twice this time.
  Duration silence_limit = seconds(10);
  std::uint16_t protocol_version = kProtocolVersion;
};

}  // namespace rdmc::control
