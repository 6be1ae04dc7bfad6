// How ibv_rc_pingpong and its kin of rdma-core's examples connect: one line of text each way over TCP, in the
// clear. It is how our endpoint meets strangers without a connection manager. The codec is pure; exchange is
// the thin driver behind it, blocking, one thread at a time, bounded by a deadline.
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

/// The TCP port of rdma-core's examples.
inline constexpr std::uint16_t kPingpongPort = 18515;
/// "LLLL:QQQQQQ:PPPPPP:" and 32 digits of the GID, all hexadecimal, and a NUL.
inline constexpr std::size_t kPingpongLineBytes = 52;

/// What one side says of itself. The LID, which Ethernet has none of, is written as 0 and ignored.
struct PingpongEnd {
  Address address;  ///< as the GID tells it, IPv4 as ::ffff:a.b.c.d; the port is not part of it
  Qpn qpn{};
  Psn psn;  ///< of the first request that this side sends

  friend bool operator==(const PingpongEnd&, const PingpongEnd&) = default;
};

std::array<std::byte, kPingpongLineBytes> encode_pingpong(const PingpongEnd& end);
/// Errors: protocol_error (not such a line, or a QPN that is reserved), unsupported (the GID is nobody's
/// address: zero or a group).
Result<PingpongEnd> decode_pingpong(std::span<const std::byte> line);

/// A TCP connection with the peer, from which this side also learns which of its addresses the peer reaches.
class PingpongConnection {
 public:
  /// As the client. Errors: those of connecting, and timed_out.
  static Result<PingpongConnection> connect(const Address& server, Time deadline);
  /// As the server: the first client that comes to `tcp_port` of any address of either family. Errors:
  /// already_exists (the port is taken), timed_out.
  static Result<PingpongConnection> accept(std::uint16_t tcp_port, Time deadline);

  /// Of this side, the TCP port included.
  Address local() const;

  /// `turn` is called over and over while exchange() waits, and takes a few milliseconds at most: the peer
  /// may look for our queue pair's address before it answers, and a port that has no kernel below it must be
  /// there to be found.
  void while_waiting(std::function<void()> turn) { turn_ = std::move(turn); }

  /// Tells `ours` and learns the peer's. `made_ready` is called as soon as the latter is known, before the
  /// peer may send its first packet; its error ends the exchange. Errors: also protocol_error, timed_out,
  /// peer_failed.
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
