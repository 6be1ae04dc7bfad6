// Connects by the messages of rdma_cm. Then repeatedly transfers a text to the server by READ and back by
// WRITE, as rping does. The peer may be rping or this program. The caller's thread does everything, and
// nothing outlives the call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/tools/foreign_host.hpp"
#include "apps/tools/foreign_options.hpp"
#include "apps/tools/ping_protocol.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/cm/manager.hpp"

namespace rdmc::tools {

/// The port number of `server` is that of rdma_cm. A server needs an `address`. For a client, the default is
/// the local address from which it reaches the server.
struct PingOptions : ForeignOptions {
  std::uint16_t port = kPingPort;  ///< The port on which the server listens.
  std::uint32_t iterations = 0;    ///< 0 if the peer ends the run; a client needs another number
  /// The length of the text. For the server, the longest accepted text.
  std::uint32_t size_bytes = 64;
  /// The path MTU that the client asks for. 0 means the largest standard path MTU that the client's interface
  /// carries.
  std::uint32_t path_mtu = 0;
  bool validate = false;  ///< If true, check every received byte.
};

struct PingReport {
  Address local, remote;
  std::string fabric;
  std::uint32_t path_mtu = 0, iterations = 0;
  double seconds = 0;  ///< The seconds from when the connection is established to its end.
  WireCounters wire;
  cm::Counters management;
};

/// Runs the client, or the server for the first client that can be served. After a failed run, `report` has
/// the values up to the failure. Errors: those of opening a port, peer_failed if the peer refused (with its
/// reason), disconnected, or the queue pair failed, timed_out, protocol_error if the messages are not those
/// of rping, corrupt if `validate` found a wrong byte.
Result<void> run_ping(const PingOptions& options, PingReport& report);

/// Runs the server for one client after the other until the program is ended. Other clients wait meanwhile.
/// `after_each` gets the outcome of each client, with the counters of all clients so far. Errors: those of
/// opening a port.
Result<void> serve_pings(const PingOptions& options,
                         const std::function<void(const Result<void>&, const PingReport&)>& after_each);

}  // namespace rdmc::tools
