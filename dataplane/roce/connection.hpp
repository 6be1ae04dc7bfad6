// One end of a RoCEv2 reliable connection (IBTA vol. 1, chapter 9 and Annex A17) as a pure state machine:
// requester and responder, without socket, clock, thread or allocation after construction. The software
// fabric feeds it parsed packets whose ICRC has been verified and drains it for packets to send; the
// simulator and the tests do the same.
//
// Towards strangers it is a textbook endpoint: SEND, WRITE, READ and atomics, go-back-N, NAKs, RNR, credits.
// Between our own
// endpoints, when both offered it, every WRITE packet is an X_WRITE that carries its own address, so that
// packets are placed in whatever order they come and only the missing ones are sent again (docs/wire.md).
// Completions, MSN and SENDs stay in PSN order in both modes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/base/egress.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::roce {

struct ConnectionConfig {
  Qpn local_qpn{};
  Qpn remote_qpn{};
  KeyHolder key_holder = KeyHolder::anyone;  ///< whose keys the peer may use beside those that anyone may
  Psn send_psn;                              ///< of the first request packet we send
  Psn receive_psn;                           ///< of the first request packet we expect
  std::uint32_t path_mtu = 1024;    ///< payload bytes of a full packet; 256 … 4096 towards strangers
  bool selective_repeat = false;    ///< the extension, agreed by both ends
  bool congestion_control = false;  ///< delay-based (Swift); off where no link can be congested
  std::uint32_t window_bytes =
      1 << 20;  ///< most payload bytes in flight: what the peer's receive buffer holds
  std::uint32_t send_depth = 256;
  std::uint32_t receive_depth = 512;
  /// READ requests and atomics under way: that we start, and that we let the peer have (initiator depth and
  /// responder resources; at least 1).
  std::uint8_t max_rd_atomic = 16, max_dest_rd_atomic = 16;
  /// Most bytes of READ responses asked for and not yet here: what our own receive buffer holds.
  std::uint32_t read_window_bytes = 1 << 20;
  /// Start with no credits and obey those that the peer reports, report ours. Off: unlimited.
  bool end_to_end_credits = false;
  /// The longest wait before a retransmission, 0 = for ever. The measured round trip asks sooner, with
  /// doubling waits; the peer is given up after retry_limit + 1 times this without any progress: 536 ms by
  /// default.
  Duration ack_timeout = milliseconds(67);
  /// The shortest time without an answer that counts as a loss; 0 = that of constants.hpp.
  /// Longer where packets are not lost but a busy peer may be slow to answer.
  Duration minimum_timeout{};
  std::uint8_t retry_limit = 7;
  std::uint8_t rnr_retry_limit = 7;  ///< 7 = until rnr_patience has passed
  /// However many retries are left, a request that has been refused for this long fails; 0 = never.
  Duration rnr_patience = seconds(10);
  std::uint8_t rnr_timer = 12;  ///< code sent in our RNR NAKs: 0.64 ms
};

enum class SendOpcode : std::uint8_t {
  send,
  send_immediate,
  write,
  write_immediate,
  send_invalidate,  ///< `remote_key` of the peer goes out of use
  // Of post_read and post_atomic.
  read,
  compare_swap,
  fetch_add
};

struct SendWork {
  std::uint64_t work_id = 0;
  SendOpcode opcode = SendOpcode::send;
  std::span<const std::byte> bytes;
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::uint32_t immediate = 0;
  /// A WRITE with immediate: the peer may see it complete before works that were posted earlier. Only with
  /// selective repeat; else it has no effect.
  bool unordered = false;
};

struct ReadWork {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;  ///< where the peer's bytes go
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
};

/// On the peer's 8 bytes at remote_address, a multiple of 8, in the peer's byte order.
struct AtomicWork {
  std::uint64_t work_id = 0;
  SendOpcode opcode = SendOpcode::fetch_add;  ///< or compare_swap
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::uint64_t swap_or_add = 0, compare = 0;
};

struct ReceiveWork {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;
};

/// A named reason for the error state.
enum class FailureCause : std::uint8_t {
  none,
  retry_exceeded,
  rnr_retry_exceeded,
  remote_invalid_request,
  remote_access,
  remote_operational,
  local_length,           ///< a SEND arrived that is longer than the posted receive
  local_invalid_request,  ///< the peer sent a request that we had to refuse with NAK 0x61
  local_access,           ///< … with NAK 0x62
  bad_response,           ///< a READ response or atomic ACK that does not fit what was asked
  closed,                 ///< by our own application
};

enum class CompletionKind : std::uint8_t { send, write, receive, receive_write_immediate, read, atomic };

struct WorkCompletion {
  std::uint64_t work_id = 0;
  CompletionKind kind = CompletionKind::send;
  FailureCause cause = FailureCause::none;
  bool flushed = false;  ///< not at fault itself: the connection failed before its turn
  std::uint32_t byte_count = 0;
  std::optional<std::uint32_t> immediate;
  std::optional<RemoteKey> invalidated;  ///< of a receive: our key that the SEND took out of use
  std::uint64_t original = 0;            ///< of an atomic: the value before it
};

/// A packet to send: `header` is BTH and extension headers, complete but for the `identification` of an
/// X_WRITE and the ICRC, which the fabric fills in when it knows the packet's place in its train.
struct TxPacket {
  std::array<std::byte, 56> header;
  std::uint8_t header_bytes = 0;
  std::uint8_t pad_bytes = 0;  ///< zeros between payload and ICRC
  bool bulk = false;  ///< a request or READ response, for the peer's bulk flow; false: for its shared flow
  bool extended_write = false;         ///< has an X_WRITE header, whose identification the fabric writes
  std::span<const std::byte> payload;  ///< an x_acknowledge's bitmap: valid for the next few answers only
};

/// What became of a received packet. When `destination` is set, the fabric makes sure that the packet's
/// payload is there (it may be already) before it polls completions or hands in the next packet.
struct Arrival {
  enum class Verdict : std::uint8_t { accepted, duplicate, out_of_order, not_ready, refused, ignored };
  Verdict verdict = Verdict::ignored;
  std::byte* destination = nullptr;
};

struct ConnectionCounters {
  std::uint64_t packets_sent = 0, packets_received = 0, payload_bytes_sent = 0, payload_bytes_received = 0;
  std::uint64_t retransmitted = 0, timeouts = 0;
  /// Ghost: an ACK for what was never sent. Stale: an answer that a later one has overtaken.
  std::uint64_t duplicates = 0, out_of_order = 0, ghosts = 0, stale = 0;
  std::uint64_t implied_naks = 0;  ///< READ responses or atomic ACKs that were found missing
  std::uint64_t sequence_naks_sent = 0, sequence_naks_received = 0;
  std::uint64_t rnr_naks_sent = 0, rnr_naks_received = 0;
  std::uint64_t notifications_sent = 0, notifications_received = 0;  ///< of congestion
  std::uint64_t refused = 0;            ///< requests answered with NAK 0x61 … 0x63
  std::uint64_t refusals_received = 0;  ///< of ours, answered so
  std::uint64_t not_ready = 0;  ///< requests that found no posted receive, and are answered with RNR NAK
  /// Dropped without an answer: of the extension that was not agreed, beyond the window, a reserved AETH
  /// syndrome, or after the connection had failed.
  std::uint64_t ignored = 0;

  ConnectionCounters& operator+=(const ConnectionCounters& other);
};

class Connection {
 public:
  /// `regions` outlives the connection; looked at for every WRITE packet and READ response, so that revoking
  /// a key takes effect at once. A SEND with invalidate changes it.
  Connection(const ConnectionConfig& config, RegionTable& regions);
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;

  /// Errors: would_block (send_depth reached), invalid_argument (length over 2^31-1), peer_failed (error
  /// state).
  Result<void> post_send(const SendWork& work);
  Result<void> post_read(const ReadWork& work);
  Result<void> post_atomic(const AtomicWork& work);
  Result<void> post_receive(const ReceiveWork& work);

  /// A packet addressed to local_qpn, ICRC verified, opcode known, lengths consistent (parse_packet did
  /// that). `congestion_experienced`: a switch on its way marked it.
  Arrival on_packet(const Packet& packet, Time now, bool congestion_experienced = false);
  void on_timer(Time now);

  /// Fills `out` with what may be sent now, answers first; returns how many. Payloads refer to posted memory.
  /// `egress`: what these packets will meet in their own host.
  std::size_t poll_transmit(Time now, std::span<TxPacket> out, const Egress& egress = {});
  /// Of the same, only answers: few, small, and awaited. Responses to a READ are not among them.
  std::size_t poll_answers(Time now, std::span<TxPacket> out, const Egress& egress = {});
  /// The posted work, counted from 0, of which a packet is to leave next; nothing if none waits, or responses
  /// to the peer's READ go with it.
  std::optional<std::uint64_t> next_to_leave() const;
  /// An acknowledgement is due at once.
  bool has_answer() const;
  bool poll_completion(WorkCompletion& out);
  /// When on_timer or poll_transmit (a paced or delayed packet) must be called next; Time::never() if at
  /// rest.
  Time next_deadline() const;

  /// The fabric calls this when it has handed in all packets that had arrived together: acknowledgements that
  /// were being gathered become due.
  void end_of_burst(Time now);

  /// Where the payloads of the next new X_WRITE packets belong, one entry each, in order, as far as is known:
  /// the rest of the message under way, then hinted writes. A message's last packet may be shorter than
  /// path_mtu; the answer ends there, as a train does. Never memory that holds valid bytes, nor memory whose
  /// key has been revoked. `for_others`: the packets may turn out to be another peer's; then never memory
  /// that any peer may read, where those bytes would not be secret. Returns how many.
  std::size_t predict(std::span<std::span<std::byte>> out, std::size_t skip_packets, bool for_others = false);
  /// `where` lies in registered memory; a hint elsewhere is not used. Gone when its first packet arrives.
  void expect_write(std::span<std::byte> where);

  /// To the error state with cause `closed`; everything posted is flushed.
  void close();
  bool failed() const;
  FailureCause cause() const;
  const ConnectionCounters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmc::roce
