// A SEND there, a SEND back, over and over: what ibv_rc_pingpong does, against it or against ourselves. The
// caller's thread does everything; nothing outlives the call.
#pragma once

#include <cstdint>
#include <string>

#include "apps/tools/foreign_host.hpp"
#include "apps/tools/foreign_options.hpp"
#include "controlplane/connect/pingpong.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::tools {

/// `server` has its TCP port. Without an `address` it is that of the TCP connection; ibv_rc_pingpong as the
/// server is met over IPv4 even when its GID is an IPv6 address. `patience` is for a client to come, for the
/// exchange, and for each iteration.
struct PingpongOptions : ForeignOptions {
  std::uint16_t tcp_port = control::kPingpongPort;
  std::uint32_t path_mtu = 1024;  ///< as the peer's: it is not negotiated
  std::uint32_t size_bytes = 4096;
  std::uint32_t iterations = 1000;
  std::uint32_t receive_depth = 500;
  bool check = false;  ///< every received byte is what a peer that was asked to check sends
  /// Nothing registered is pinned: its pages come when they are used.
  bool on_demand_paging = false;
  bool timestamps = false;  ///< of each message's completion
};

/// Between one received message's completion and the next one's, by this host's clock as they are taken.
struct CompletionGaps {
  std::uint64_t count = 0;
  Duration least, most, total;
  void add(Duration gap);
};

struct PingpongReport {
  control::PingpongEnd ours, theirs;
  std::string fabric;
  double seconds = 0;  ///< from the first SEND posted or awaited to the last completion
  WireCounters wire;
  CompletionGaps gaps;  ///< if asked for
};

/// `report`: of a run that fails, what there is to tell until then. Errors: those of the exchange and of
/// opening a port, peer_failed (the queue pair failed), timed_out, corrupt (a byte that `check` did not
/// expect), unsupported (on-demand paging of a fabric that pins).
Result<void> run_pingpong(const PingpongOptions& options, PingpongReport& report);

}  // namespace rdmc::tools
