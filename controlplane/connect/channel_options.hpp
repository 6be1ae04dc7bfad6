// The values that both ends of a channel must agree on (the key, the protocol's version), and the limits for
// the resources that one peer may use. The options are plain values. They are copied into every connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "controlplane/auth/tls.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// No authentication and no encryption, for users that give --insecure. Both ends must use it. An end that
/// requires the key refuses an end that uses Insecure.
struct Insecure {};
using Security = std::variant<TlsContext, Insecure>;

/// The version of the protocol. It must grow when a control message changes in a way that an older program
/// would misunderstand.
inline constexpr std::uint16_t kProtocolVersion = 1;

struct ChannelOptions {
  Security security;
  /// The length of the longest message in either direction. Must be at most kMaxMessageBytes.
  std::uint32_t max_message_bytes = 16 << 20;
  /// The largest number of queued bytes that are not yet handed to the kernel. If a message would exceed it,
  /// send() returns would_block.
  std::size_t max_queued_bytes = 32 << 20;
  /// The time limit for the handshake. It begins with the TCP connection and ends when both preambles are
  /// exchanged.
  Duration handshake_deadline = seconds(5);
  /// The time limit for close(), which waits until the peer has read everything.
  Duration close_deadline = seconds(5);
  /// The value of TCP_USER_TIMEOUT, in whole milliseconds. Within this time, the peer must acknowledge what
  /// was sent. If its receive buffer is full, it must read again within this time. An idle peer is probed, so
  /// its death is detected after about twice this time.
  Duration silence_limit = seconds(10);
  std::uint16_t protocol_version = kProtocolVersion;
};

}  // namespace rdmc::control
