// Repeatedly sends a SEND and waits for a SEND from the peer, like ibv_rc_pingpong. The peer may be
// ibv_rc_pingpong or this program. The caller's thread does everything, and nothing outlives the call.
#pragma once

#include <cstdint>
#include <string>

#include "apps/tools/foreign_host.hpp"
#include "apps/tools/foreign_options.hpp"
#include "controlplane/connect/pingpong.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::tools {

/// The port number of `server` is the TCP port number. The default of `address` is the local address of the
/// TCP connection. ibv_rc_pingpong as the server listens on IPv4 even if its GID is an IPv6 address.
/// `patience` is the time limit for a client to connect, for the exchange of the addresses, and for each
/// iteration.
struct PingpongOptions : ForeignOptions {
  std::uint16_t tcp_port = control::kPingpongPort;
  std::uint32_t path_mtu = 1024;  ///< Must be the peer's value, because it is not negotiated.
  std::uint32_t size_bytes = 4096;
  std::uint32_t iterations = 1000;
  std::uint32_t receive_depth = 500;
  bool check = false;  ///< If true, check every received byte. The peer must be asked to check, too.
  /// If true, registered memory must not be pinned: its pages are allocated when they are used.
  bool on_demand_paging = false;
  bool timestamps = false;  ///< If true, measure the times between the completions of received messages.
};

/// The times between the completions of successive received messages. A time is taken from this host's clock
/// when the program takes the completion.
struct CompletionGaps {
  std::uint64_t count = 0;
  Duration least, most, total;
  void add(Duration gap);
};

struct PingpongReport {
  control::PingpongEnd ours, theirs;
  std::string fabric;
  double seconds = 0;  ///< The seconds from when the first SEND is posted or awaited to the last completion.
  WireCounters wire;
  CompletionGaps gaps;  ///< Filled in if `timestamps` is set.
};

/// Runs the client or the server. After a failed run, `report` has the values up to the failure. Errors:
/// those of the exchange and of opening a port, peer_failed if the queue pair failed, timed_out, corrupt if
/// `check` found a wrong byte, unsupported if on-demand paging is requested and the fabric pins memory.
Result<void> run_pingpong(const PingpongOptions& options, PingpongReport& report);

}  // namespace rdmc::tools
