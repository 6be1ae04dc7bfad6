// A Port moves UDP payloads between this host and others: it is the packet driver under the software fabric.
// It knows nothing of RoCE; it sends trains of equal-sized datagrams and receives trains, if asked straight
// into the memory where their payload belongs. One engine thread owns a port; only `wake` may be called from
// another thread.
//
// A train is a run of datagrams of one size to one destination (the last may be shorter), handed to the
// operating system in one call (UDP_SEGMENT) and often received in one (UDP_GRO). A driver without offload
// sends and receives trains of one; callers ask `info()` and never need to know why.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/egress.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::port {

/// One of a port's receive endpoints, each with a UDP port number of its own. Flow 0 always exists: the
/// shared endpoint for first contact, control packets, small messages and strangers. Others are opened for
/// bulk data, as many as the fabric wants.
enum class FlowId : std::uint32_t {};
inline constexpr FlowId kSharedFlow{0};

struct PortInfo {
  std::string driver;                        ///< "udp", "sim", …
  Address address;                           ///< of the shared flow: concrete, since the ICRC covers it
  std::uint32_t mtu = 1500;                  ///< largest IP packet the interface sends
  std::uint32_t train_segments = 1;          ///< most datagrams in one sent train
  std::uint32_t train_bytes = 65'507;        ///< most UDP payload bytes in one train, all segments together
  std::uint32_t receive_train_segments = 1;  ///< most datagrams in one received train
  /// IPv4 identification of datagram k of a sent train: k if true, 0 for every one otherwise. It is in the
  /// ICRC.
  bool identification_counts_up = false;
  /// A kernel on the same machine may hand over a train as it was sent, uncut; then it is lost, and whoever
  /// sends here had better send datagrams one by one.
  bool loses_uncut_trains = false;
  bool same_host_only = false;             ///< a loopback interface: no link to congest or to damage packets
  std::uint32_t receive_buffer_bytes = 0;  ///< what a flow can hold before the driver drops, in payload bytes
  std::vector<std::string> notes;          ///< what the start-up self-test turned off and why, one line each
};

/// Datagrams to send. `pieces` gathers all segments' bytes in order; segment i is bytes
/// [i*segment_bytes, (i+1)*segment_bytes) of the whole. The memory is the caller's and is free again when
/// send_burst has returned: the bytes have been copied or sent by then.
struct TxTrain {
  Address destination;
  FlowId source = kSharedFlow;  ///< whose UDP port number the train carries as its source
  std::span<const iovec> pieces;
  std::uint32_t segment_bytes = 0;  ///< > 0; all bytes <= segment_bytes means a single datagram
  std::uint32_t total_bytes = 0;
  bool ecn_capable = false;  ///< mark ECT(0)
};

/// Datagrams received together. `pieces` is where their bytes lie, in order (one piece in the port's own
/// memory, or the scatter list that was planned); valid until the next receive_burst.
struct RxTrain {
  FlowId flow = kSharedFlow;
  Address source;
  std::span<const iovec> pieces;
  std::uint32_t segment_bytes = 0;
  std::uint32_t total_bytes = 0;
  bool congestion_experienced = false;  ///< ECN CE on any of them
  bool planned = false;                 ///< `pieces` is the scatter list that the planner gave
  /// IPv4's, of the first datagram, from a driver that sees IP headers; it is in the ICRC.
  std::optional<std::uint16_t> identification;
};

/// Says where the next train of a flow should land. Asked right before the kernel is, so the answer can
/// follow the newest packet. `pieces` are filled in order; whatever does not fit them goes to the port's own
/// memory, which the port appends as the last piece. 0 pieces: no idea, all into the port's memory.
class ScatterPlanner {
 public:
  virtual ~ScatterPlanner() = default;
  /// Fills at most pieces.size() entries; returns how many. `ahead` trains planned just before this one in
  /// the same burst have not been looked at yet; a planner that can't look further returns 0.
  virtual std::size_t plan(FlowId flow, std::uint32_t ahead, std::span<iovec> pieces) = 0;
};

/// What happened on a port since it was opened; monotone.
struct PortCounters {
  std::uint64_t datagrams_sent = 0, bytes_sent = 0, trains_sent = 0;
  std::uint64_t datagrams_received = 0, bytes_received = 0, trains_received = 0;
  std::uint64_t system_calls = 0, waits = 0;
  std::uint64_t send_refused =
      0;  ///< the kernel's buffer was full, or enough waits to leave this host: the caller tries again
  std::uint64_t send_failed = 0;  ///< EMSGSIZE, ENETUNREACH, …: dropped, as a network would
  std::uint64_t receive_truncated = 0;
  std::uint64_t receive_dropped = 0;  ///< reported by the kernel (SO_RXQ_OVFL)
  /// Frames that were dropped, where the driver sees frames: unfit for use, by reason, or for somebody else.
  std::uint64_t frames_truncated = 0, frames_of_other_protocols = 0, fragments = 0, frames_with_options = 0,
                bad_checksums = 0, wrong_hop_limits = 0, for_other_addresses = 0, for_closed_ports = 0;
  /// How often a link that was there has gone, and come back: down while the two differ. Datagrams sent
  /// meanwhile are dropped (send_failed). Drivers that see no link count none.
  std::uint64_t link_losses = 0, link_returns = 0;
};

class Port {
 public:
  virtual ~Port() = default;

  virtual const PortInfo& info() const noexcept = 0;

  /// Opens a receive endpoint with a UDP port of its own and returns its id. Errors: resource_limit,
  /// io_error.
  virtual Result<FlowId> open_flow() = 0;
  /// The UDP port number of a flow.
  virtual std::uint16_t udp_port(FlowId flow) const = 0;
  virtual void close_flow(FlowId flow) = 0;

  /// Sends trains in order; returns how many were taken. Fewer than given: the kernel's buffer is full, try
  /// the rest after the next progress. A train that the network refuses for good is dropped and counted.
  virtual std::size_t send_burst(std::span<const TxTrain> trains) = 0;

  /// What waits to leave this host now. A driver that does not know says that nothing does.
  virtual Egress egress(Time) const { return {}; }

  /// Receives what is there, without waiting, at most out.size() trains; bulk flows land as `planner` says.
  /// Empty datagrams are counted and not handed up.
  virtual std::size_t receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) = 0;

  /// Blocks until a flow is readable, `deadline` (on this port's clock) passes, or `wake` is called.
  virtual void wait(Time deadline) = 0;
  /// Ends a present or the next wait. Any thread.
  virtual void wake() noexcept = 0;

  // In wait()'s place, for a caller that watches descriptors itself (epoll, poll, io_uring).

  /// One of them becomes readable when wait() would return, but for the deadline. To be watched for edges
  /// (EPOLLET). Errors: unsupported; those of making them.
  virtual Result<std::vector<int>> wait_descriptors() {
    return fail(Errc::unsupported, "nothing shows when this port has something");
  }
  /// Before the caller waits: until when it may, at most `deadline`. A time that has passed: there is
  /// something to do.
  virtual Time prepare_wait(Time) { return Time{}; }

  virtual const PortCounters& counters() const noexcept = 0;
};

}  // namespace rdmc::port
