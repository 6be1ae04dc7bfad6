// A Port sends and receives UDP payloads for the software fabric. It is the interface of all packet drivers
// and knows nothing of RoCE. It sends and receives trains. On request, received payload is written directly
// into the memory where it belongs. One engine thread owns a port. Only `wake` may be called from another
// thread.
//
// A train is a sequence of datagrams of one size to one destination; the last datagram may be shorter. It is
// handed to the operating system in one call (UDP_SEGMENT) and often received in one call (UDP_GRO). A driver
// without offload sends and receives trains of one datagram. Callers read the limits from `info()` and do not
// need to know the reason for them.
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

/// One of a port's receive endpoints, each with a UDP port number of its own. Flow 0 always exists. It is the
/// shared endpoint for first contact, control packets, small messages and foreign endpoints. The fabric opens
/// any number of other flows for bulk data.
enum class FlowId : std::uint32_t {};
inline constexpr FlowId kSharedFlow{0};

struct PortInfo {
  std::string driver;  ///< For example "udp" or "sim".
  Address address;  ///< The address of the shared flow. It is never a wildcard, because the ICRC covers it.
  std::uint32_t mtu = 1500;          ///< The largest IP packet that the interface sends, in bytes.
  std::uint32_t train_segments = 1;  ///< The maximum number of datagrams in a train that is sent.
  /// The maximum number of UDP payload bytes in one train, over all its segments.
  std::uint32_t train_bytes = 65'507;
  std::uint32_t receive_train_segments = 1;  ///< The maximum number of datagrams in a received train.
  /// If true, datagram k of a sent train has the IPv4 identification k. If false, every datagram has the
  /// identification 0. The ICRC covers this field.
  bool identification_counts_up = false;
  /// True if a kernel on the same machine may deliver a train to this port without cutting it into datagrams.
  /// The port then drops that train, so peers should send to this port one datagram at a time.
  bool loses_uncut_trains = false;
  /// True for a loopback interface, which has no link that could be congested or could damage packets.
  bool same_host_only = false;
  /// The number of payload bytes that a flow can hold before the driver drops datagrams.
  std::uint32_t receive_buffer_bytes = 0;
  /// The features that the self-test at the start turned off, and the reasons. One line for each.
  std::vector<std::string> notes;
};

/// Datagrams to send. `pieces` lists the bytes of all segments in order. Segment i consists of the bytes
/// [i*segment_bytes, (i+1)*segment_bytes) of the train. The caller owns the memory. It may use the memory
/// again as soon as send_burst has returned, because the bytes have been copied or sent by then.
struct TxTrain {
  Address destination;
  FlowId source = kSharedFlow;  ///< The flow whose UDP port number is the source port number of the train.
  std::span<const iovec> pieces;
  /// Greater than 0. If total_bytes <= segment_bytes, the train is a single datagram.
  std::uint32_t segment_bytes = 0;
  std::uint32_t total_bytes = 0;
  bool ecn_capable = false;  ///< If true, the datagrams are marked ECT(0).
};

/// Datagrams that were received together. `pieces` lists their bytes in order. The bytes are either in the
/// port's own memory (one piece) or in the scatter list that was planned. The bytes are valid until the next
/// receive_burst.
struct RxTrain {
  FlowId flow = kSharedFlow;
  Address source;
  std::span<const iovec> pieces;
  std::uint32_t segment_bytes = 0;
  std::uint32_t total_bytes = 0;
  bool congestion_experienced = false;  ///< True if at least one datagram was marked ECN CE.
  bool planned = false;                 ///< True if `pieces` is the scatter list that the planner gave.
  /// The IPv4 identification of the first datagram, if the driver sees IP headers. The ICRC covers this
  /// field.
  std::optional<std::uint16_t> identification;
};

/// Decides where the bytes of the next train of a flow are to be placed. The port calls the planner
/// immediately before it calls the kernel, so that the plan can take the newest packet into account. The
/// bytes fill `pieces` in order. Bytes that do not fit go to the port's own memory, which the port appends as
/// the last piece. If the planner returns 0 pieces, all bytes go to the port's memory.
class ScatterPlanner {
 public:
  virtual ~ScatterPlanner() = default;
  /// Fills at most pieces.size() entries and returns how many it filled. `ahead` is the number of trains that
  /// were planned earlier in the same burst and have not been processed yet. A planner that cannot plan so
  /// many trains in advance returns 0.
  virtual std::size_t plan(FlowId flow, std::uint32_t ahead, std::span<iovec> pieces) = 0;
};

/// Counts the events of a port since it was opened. The counters never decrease.
struct PortCounters {
  std::uint64_t datagrams_sent = 0, bytes_sent = 0, trains_sent = 0;
  std::uint64_t datagrams_received = 0, bytes_received = 0, trains_received = 0;
  std::uint64_t system_calls = 0, waits = 0;
  /// Sends that were refused because the kernel's buffer was full, or because enough bytes already wait to
  /// leave this host. The caller tries again.
  std::uint64_t send_refused = 0;
  /// Datagrams and trains that were dropped because of an error such as EMSGSIZE or ENETUNREACH, as a network
  /// would drop them.
  std::uint64_t send_failed = 0;
  std::uint64_t receive_truncated = 0;
  std::uint64_t receive_dropped = 0;  ///< Datagrams that the kernel reports as dropped (SO_RXQ_OVFL).
  /// Only for drivers that see frames: frames that were dropped. They were unusable for the reason that the
  /// name gives, or they were addressed to another host or to a closed port.
  std::uint64_t frames_truncated = 0, frames_of_other_protocols = 0, fragments = 0, frames_with_options = 0,
                bad_checksums = 0, wrong_hop_limits = 0, for_other_addresses = 0, for_closed_ports = 0;
  /// How often a link that had been up was lost, and how often a lost link was up again. The link is down
  /// while the two numbers differ. Datagrams that are sent during this time are dropped (send_failed). Both
  /// numbers are 0 for drivers that do not see the link.
  std::uint64_t link_losses = 0, link_returns = 0;
};

class Port {
 public:
  virtual ~Port() = default;

  virtual const PortInfo& info() const noexcept = 0;

  /// Opens a receive endpoint with a UDP port number of its own and returns its id. Errors: resource_limit,
  /// io_error.
  virtual Result<FlowId> open_flow() = 0;
  virtual std::uint16_t udp_port(FlowId flow) const = 0;
  virtual void close_flow(FlowId flow) = 0;

  /// Sends trains in order and returns the number of trains that were accepted. If not all trains were
  /// accepted, the kernel's buffer is full. The caller sends the other trains again later. A train that the
  /// network refuses permanently is dropped and counted.
  virtual std::size_t send_burst(std::span<const TxTrain> trains) = 0;

  /// Returns how long the bytes that now wait will need to leave this host, and at what rate they leave. A
  /// driver that does not know this reports that nothing waits.
  virtual Egress egress(Time) const { return {}; }

  /// Receives at most out.size() trains that have already arrived, without waiting. `planner` decides where
  /// the payload of bulk flows is placed. Empty datagrams are counted and not returned.
  virtual std::size_t receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) = 0;

  /// Blocks until a flow is readable, until `deadline` (on this port's clock), or until `wake` is called.
  virtual void wait(Time deadline) = 0;
  /// Ends the present wait or the next one. Any thread may call it.
  virtual void wake() noexcept = 0;

  // The following two functions replace wait() for a caller that watches descriptors itself (epoll, poll,
  // io_uring).

  /// Returns descriptors for the caller to watch. One of them becomes readable when wait() would return for
  /// another reason than its deadline. The caller must watch them for edges (EPOLLET). Errors: unsupported,
  /// or an error of creating the descriptors.
  virtual Result<std::vector<int>> wait_descriptors() {
    return fail(Errc::unsupported, "nothing shows when this port has something");
  }
  /// Must be called before the caller waits. Returns the time until which the caller may wait, which is
  /// `deadline` at most. If that time has already passed, the port has work to do.
  virtual Time prepare_wait(Time) { return Time{}; }

  virtual const PortCounters& counters() const noexcept = 0;
};

}  // namespace rdmc::port
