// The exchange by which ibv_rc_pingpong and similar examples of rdma-core connect: one line of text in each
// direction over TCP, without encryption. rdmc uses this exchange to connect to foreign endpoints without a
// connection manager. The codec consists of two pure functions. PingpongConnection is the driver around the
// codec. Its functions block until they are done or until a deadline, and only one thread at a time may use
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// The TCP port number that rdma-core's examples use.
inline constexpr std::uint16_t kPingpongPort = 18515;
/// The length of the line. The line consists of "LLLL:QQQQQQ:PPPPPP:", 32 digits of the GID, and a NUL. All
/// digits are hexadecimal.
inline constexpr std::size_t kPingpongLineBytes = 52;

/// The description that one side gives of its queue pair. Ethernet has no LID, so the LID is written as 0 and
/// ignored.
struct PingpongEnd {
  /// The address that the GID contains. IPv4 addresses are written as ::ffff:a.b.c.d. The port number is not
  /// part of the GID.
  Address address;
  Qpn qpn{};
  Psn psn;  ///< The PSN of the first request that this side sends.

  friend bool operator==(const PingpongEnd&, const PingpongEnd&) = default;
};

std::array<std::byte, kPingpongLineBytes> encode_pingpong(const PingpongEnd& end);
/// Decodes a line. Errors: protocol_error if `line` does not have this format or if the QPN is reserved;
/// unsupported if the GID is zero or a multicast address.
Result<PingpongEnd> decode_pingpong(std::span<const std::byte> line);

/// A TCP connection with the peer. The peer can reach this host at the connection's local address.
class PingpongConnection {
 public:
  /// Connects as the client. Errors: those of connecting, and timed_out.
  static Result<PingpongConnection> connect(const Address& server, Time deadline);
  /// Accepts the first client that connects to `tcp_port` at any IPv4 or IPv6 address of this host. Errors:
  /// already_exists if the port is in use, timed_out.
  static Result<PingpongConnection> accept(std::uint16_t tcp_port, Time deadline);

  /// The address of this side, with the TCP port.
  Address local() const;

  /// Sets a function that is called repeatedly while exchange() waits. One call must take a few milliseconds
  /// at most. A port that works without the kernel needs this function. Before the peer answers, it may have
  /// to resolve the IP address of this side's queue pair (ARP), and then only the port can reply.
  void while_waiting(std::function<void()> turn) { turn_ = std::move(turn); }

  /// Sends `ours` and receives the peer's line. `made_ready` is called as soon as the peer's line is known,
  /// and before the peer may send its first packet. If `made_ready` returns an error, the exchange ends with
  /// that error. Other errors: those of decode_pingpong(), timed_out, peer_failed.
  Result<void> exchange(const PingpongEnd& ours,
                        const std::function<Result<void>(const PingpongEnd&)>& made_ready, Time deadline);

 private:
  PingpongConnection(Descriptor socket, bool server) : socket_(std::move(socket)), server_(server) {}
  Result<void> wait(short events, Time deadline) const;
  Result<void> write(std::span<const std::byte> bytes, Time deadline) const;
  Result<void> read(std::span<std::byte> bytes, Time deadline) const;

  Descriptor socket_;
  bool server_;
  std::function<void()> turn_;
};

}  // namespace rdmc::control
