// Connects by rdma_cm's messages and carries text there by READ and back by WRITE, over and over: what rping
// does, against it or against ourselves. The caller's thread does everything; nothing outlives the call.
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

/// `server` has rdma_cm's port. A server needs an `address`; a client takes that towards its server.
struct PingOptions : ForeignOptions {
  std::uint16_t port = kPingPort;  ///< that the server listens on
  std::uint32_t iterations = 0;    ///< 0: until the other side ends it; the client needs a number
  std::uint32_t size_bytes = 64;   ///< of the text; the server's is a limit
  std::uint32_t path_mtu =
      0;  ///< that the client asks for; 0: the largest standard one that its interface carries
  bool validate = false;  ///< every byte that comes is what was to come
};

struct PingReport {
  Address local, remote;
  std::string fabric;
  std::uint32_t path_mtu = 0, iterations = 0;
  double seconds = 0;  ///< from the connection's establishment to its end
  WireCounters wire;
  cm::Counters management;
};

/// The client, or the server for the first client that can be served. `report`: of a run that fails, what
/// there is to tell until then. Errors: those of opening a port, peer_failed (refused, with the peer's
/// reason; gone; or the queue pair failed), timed_out, protocol_error (not rping's messages), corrupt (a byte
/// that `validate` did not expect).
Result<void> run_ping(const PingOptions& options, PingReport& report);

/// The server for one client after the other until the program is ended: whoever comes meanwhile waits.
/// `after_each` is told how each went, with counters of all so far. Errors: those of opening a port.
Result<void> serve_pings(const PingOptions& options,
                         const std::function<void(const Result<void>&, const PingReport&)>& after_each);

}  // namespace rdmc::tools
