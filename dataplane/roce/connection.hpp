// One end of a RoCEv2 reliable connection (IBTA vol. 1, chapter 9 and Annex A17). It is a pure state machine
// of a requester and a responder, without socket, clock or thread. It allocates no memory after its
// construction. The software fabric hands in parsed packets whose ICRC has been verified, and polls the
// packets to send. The simulator and the tests do the same.
//
// With a foreign endpoint the connection uses standard mode: SEND, WRITE, READ and atomics, go-back-N, NAKs,
// RNR and credits. Between two endpoints of rdmc that both offered selective repeat, every WRITE packet is an
// X_WRITE that carries its own address. So packets are placed in whatever order they arrive, and only the
// missing ones are sent again (docs/wire.md). Completions, MSN and SENDs stay in PSN order in both modes,
// except the completions of unordered WRITEs.
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
  /// The number by which remote keys name this connection as their holder. The peer may use the keys of this
  /// holder and those of `anyone`.
  KeyHolder key_holder = KeyHolder::anyone;
  Psn send_psn;                   ///< The PSN of the first request packet that this side sends.
  Psn receive_psn;                ///< The PSN of the first request packet that this side expects.
  std::uint32_t path_mtu = 1024;  ///< The payload bytes of a full packet; 256 … 4096 with a foreign endpoint.
  bool selective_repeat = false;  ///< An extension of rdmc, to which both ends must have agreed.
  /// Delay-based control (Swift). It is off where no link can be congested.
  bool congestion_control = false;
  /// The largest number of payload bytes in flight: the capacity of the peer's receive buffer.
  std::uint32_t window_bytes = 1 << 20;
  std::uint32_t send_depth = 256;
  std::uint32_t receive_depth = 512;
  /// The largest number of READs and atomics in flight that this side starts (initiator depth), and the
  /// largest number that it accepts from the peer (responder resources). Both must be at least 1.
  std::uint8_t max_rd_atomic = 16, max_dest_rd_atomic = 16;
  /// The largest number of bytes of READ responses that are requested and have not arrived: the capacity of
  /// the local receive buffer.
  std::uint32_t read_window_bytes = 1 << 20;
  /// If true, this side starts with no credits, sends no more messages than the credits of the peer permit,
  /// and reports its own credits. If false, credits are unlimited.
  bool end_to_end_credits = false;
  /// The longest wait before a retransmission. It may be exceeded before a round trip has been measured,
  /// and on paths whose round trip is nearly as long or longer. 0 means that nothing is sent again because of
  /// silence. Usually the wait is shorter: it follows the measured round trip and doubles with each timeout.
  /// If there is no progress for (retry_limit + 1) times this time, the peer is given up: after 536 ms by
  /// default.
  Duration ack_timeout = milliseconds(67);
  /// The shortest time without an answer that counts as a loss. 0 means the value of constants.hpp. A longer
  /// time is useful where packets are not lost but a busy peer may answer slowly.
  Duration minimum_timeout{};
  std::uint8_t retry_limit = 7;
  /// The largest number of retries after RNR NAKs. 7 means that only rnr_patience limits the retries.
  std::uint8_t rnr_retry_limit = 7;
  /// A request that has been refused for this time fails, however many retries are left. 0 means that it
  /// never fails for this reason.
  Duration rnr_patience = seconds(10);
  std::uint8_t rnr_timer = 12;  ///< The timer code in this side's RNR NAKs. 12 means 0.64 ms.
};

enum class SendOpcode : std::uint8_t {
  send,
  send_immediate,
  write,
  write_immediate,
  send_invalidate,  ///< Also invalidates the peer's key `remote_key`.
  // The following opcodes are only for post_read and post_atomic.
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
  /// For a WRITE with immediate: the peer may complete it before work requests that were posted earlier. It
  /// has an effect only with selective repeat.
  bool unordered = false;
};

struct ReadWork {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;  ///< The memory that receives the peer's bytes.
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
};

/// An atomic on 8 bytes of the peer's memory, in the peer's byte order. `remote_address` must be a multiple
/// of 8.
struct AtomicWork {
  std::uint64_t work_id = 0;
  SendOpcode opcode = SendOpcode::fetch_add;  ///< fetch_add or compare_swap.
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  std::uint64_t swap_or_add = 0, compare = 0;
};

struct ReceiveWork {
  std::uint64_t work_id = 0;
  std::span<std::byte> bytes;
};

/// The reason why a connection is in the error state.
enum class FailureCause : std::uint8_t {
  none,
  retry_exceeded,
  rnr_retry_exceeded,
  remote_invalid_request,
  remote_access,
  remote_operational,
  local_length,           ///< A SEND arrived that is longer than the posted receive.
  local_invalid_request,  ///< The peer sent a request that was refused with NAK 0x61.
  local_access,           ///< The peer sent a request that was refused with NAK 0x62.
  bad_response,           ///< A READ response or atomic ACK arrived that does not fit the request.
  closed,                 ///< The local application closed the connection.
};

enum class CompletionKind : std::uint8_t { send, write, receive, receive_write_immediate, read, atomic };

struct WorkCompletion {
  std::uint64_t work_id = 0;
  CompletionKind kind = CompletionKind::send;
  FailureCause cause = FailureCause::none;
  /// True if the connection failed before this work request was completed, and another cause than this work
  /// request made it fail.
  bool flushed = false;
  std::uint32_t byte_count = 0;
  std::optional<std::uint32_t> immediate;
  std::optional<RemoteKey> invalidated;  ///< For a receive: the local key that the SEND invalidated.
  std::uint64_t original = 0;            ///< For an atomic: the value before the operation.
};

/// A packet to send. `header` holds the BTH and the extension headers. The fabric adds the rest when it knows
/// the packet's segment index in its train: the `identification` of an X_WRITE, and the ICRC.
struct TxPacket {
  std::array<std::byte, 56> header;
  std::uint8_t header_bytes = 0;
  std::uint8_t pad_bytes = 0;  ///< Zero bytes between payload and ICRC.
  /// True for a request, READ response or atomic ACK, which goes to the peer's bulk flow. False for a packet
  /// to the peer's shared flow.
  bool bulk = false;
  /// True if `header` has an X_WRITE header. Then the fabric must fill in its identification.
  bool extended_write = false;
  /// For an x_acknowledge, the payload is the bitmap, which is overwritten after the next few answers.
  std::span<const std::byte> payload;
};

/// The result of a received packet. If `destination` is set, the packet's payload belongs there. Then the
/// fabric must make sure that the payload is there before it polls completions or hands in the next packet.
/// The payload may be there already.
struct Arrival {
  enum class Verdict : std::uint8_t { accepted, duplicate, out_of_order, not_ready, refused, ignored };
  Verdict verdict = Verdict::ignored;
  std::byte* destination = nullptr;
};

struct ConnectionCounters {
  std::uint64_t packets_sent = 0, packets_received = 0, payload_bytes_sent = 0, payload_bytes_received = 0;
  std::uint64_t retransmitted = 0, timeouts = 0;
  /// `ghosts` counts ACKs for packets that were never sent. `stale` counts answers that a later answer has
  /// overtaken.
  std::uint64_t duplicates = 0, out_of_order = 0, ghosts = 0, stale = 0;
  /// The number of times that a READ response or atomic ACK was found missing.
  std::uint64_t implied_naks = 0;
  std::uint64_t sequence_naks_sent = 0, sequence_naks_received = 0;
  std::uint64_t rnr_naks_sent = 0, rnr_naks_received = 0;
  std::uint64_t notifications_sent = 0, notifications_received = 0;  ///< Congestion notifications.
  std::uint64_t refused = 0;            ///< Requests of the peer that were answered with NAK 0x61 or 0x62.
  std::uint64_t refusals_received = 0;  ///< Requests of this side that were answered with NAK 0x61 … 0x63.
  /// Requests that found no posted receive and were answered with an RNR NAK.
  std::uint64_t not_ready = 0;
  /// Packets that were dropped: an X_ACKNOWLEDGE without selective repeat, a packet beyond the window, a bad
  /// X_WRITE before which a packet is missing, an AETH with a reserved or wrong syndrome, and every packet
  /// after the connection had failed.
  std::uint64_t ignored = 0;

  ConnectionCounters& operator+=(const ConnectionCounters& other);
};

class Connection {
 public:
  /// `regions` must outlive the connection. The connection looks up every WRITE packet and READ response in
  /// it, so a revoked key takes effect at once. A SEND with invalidate changes the table.
  Connection(const ConnectionConfig& config, RegionTable& regions);
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;

  /// Errors: would_block if send_depth or receive_depth is reached, invalid_argument if the length exceeds
  /// 2^31-1 bytes, the opcode belongs to another function, or the address of an atomic is not a multiple of
  /// 8, peer_failed in the error state.
  Result<void> post_send(const SendWork& work);
  Result<void> post_read(const ReadWork& work);
  Result<void> post_atomic(const AtomicWork& work);
  Result<void> post_receive(const ReceiveWork& work);

  /// Handles a received packet. Precondition: the packet is addressed to local_qpn, its ICRC is verified, and
  /// its opcode and lengths have been checked (by parse_packet or parse_scattered). `congestion_experienced`
  /// is true if a switch has marked the packet.
  Arrival on_packet(const Packet& packet, Time now, bool congestion_experienced = false);
  void on_timer(Time now);

  /// Fills `out` with the packets that may be sent now, and returns their number. Answers come first.
  /// Payloads refer to memory of the application or of this connection. `egress` describes the queue in this
  /// host that these packets will wait in.
  std::size_t poll_transmit(Time now, std::span<TxPacket> out, const Egress& egress = {});
  /// Does the same as poll_transmit, but for answers only. Answers are few and small, and the peer waits for
  /// them. Returns 0 while responses to a READ are being sent.
  std::size_t poll_answers(Time now, std::span<TxPacket> out, const Egress& egress = {});
  /// Returns the index, counted from 0, of the posted work request whose packet leaves next. Returns nullopt
  /// if no packet waits, or while responses to the peer's READ are being sent.
  std::optional<std::uint64_t> next_to_leave() const;
  /// Returns the number of packets that must leave until this work request has been sent as a whole. This
  /// includes all packets that are to be sent again. A READ or an atomic may need fewer packets.
  /// Precondition: the work request has been posted and has not completed.
  std::size_t packets_through(std::uint64_t work) const;
  /// True if an acknowledgement is due at once.
  bool has_answer() const;
  bool poll_completion(WorkCompletion& out);
  /// The time at which on_timer or poll_transmit must be called next. poll_transmit is needed for packets
  /// that are paced or delayed. Returns Time::never() if nothing is pending.
  Time next_deadline() const;

  /// Called by the fabric when it has handed in all packets that had arrived together. The collected
  /// acknowledgements then become due.
  void end_of_burst(Time now);

  /// Predicts to which memory the payloads of the next new X_WRITE packets belong, as far as this is known.
  /// Fills `out` with one entry per packet, in order, after `skip_packets` packets, and returns the number of
  /// entries. The rest of the current message comes first, and hinted writes follow. The last packet of a
  /// message may be shorter than path_mtu. In that case it is the last entry, because a train also ends with
  /// its first shorter packet. Memory that holds valid bytes, or whose key has been revoked, is never
  /// predicted. `for_others` must be true if the packets may come from another peer. Then memory that any
  /// peer may read is never predicted either, because the bytes would not stay secret there.
  std::size_t predict(std::span<std::span<std::byte>> out, std::size_t skip_packets, bool for_others = false);
  /// Gives a hint that the next WRITE has `bytes` bytes and goes to this key and address. The hint is not
  /// used unless the peer may write all of that memory. It ends when the first packet of that WRITE arrives.
  void expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes);

  /// Puts the connection into the error state with cause `closed`, and flushes everything that is posted.
  void close();
  bool failed() const;
  FailureCause cause() const;
  const ConnectionCounters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmc::roce
