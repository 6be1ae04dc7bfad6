// The half of a connection that sends requests and handles their answers. It keeps one slot for each PSN in
// flight. The slots are in two structures: a ring buffer in the order of the sequence numbers, for
// acknowledgements, and a list in the order of transmission, for loss detection. Both modes use the same
// code: in go-back-N, a loss means that all packets in flight are lost.
//
// The functions are in several files, according to the event that they handle: requester.cpp (post,
// completions, flush), requester_transmit.cpp (window and packets), requester_ack.cpp,
// requester_rd_atomic.cpp (READ and atomics), retransmit.cpp (losses, timers, RNR). The application owns
// posted memory and must keep it valid until the completion has been polled. One Connection owns and drives a
// Requester.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "dataplane/roce/bit_window.hpp"
#include "dataplane/roce/congestion.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/credits.hpp"
#include "dataplane/roce/fixed_ring.hpp"
#include "dataplane/roce/round_trip.hpp"

namespace rdmc::roce {

class Requester {
 public:
  Requester(const ConnectionConfig& config, FixedRing<WorkCompletion>& completions,
            ConnectionCounters& counters);

  /// Posts a work request. Errors: would_block if send_depth is reached, invalid_argument under the
  /// conditions of Connection::post_send.
  Result<void> post(const SendWork& work);
  Result<void> post_read(const ReadWork& work);
  Result<void> post_atomic(const AtomicWork& work);
  /// Called when one completion of a posted work request has been polled.
  void release() { --outstanding_; }

  /// Fills `out` with retransmissions first and then with new packets, as far as the window allows. Returns
  /// the number of packets.
  std::size_t transmit(Time now, std::span<TxPacket> out, const Egress& egress);

  /// Returns the index, counted from 0, of the posted work request whose packet leaves next. Returns nullopt
  /// if no packet waits.
  std::optional<std::uint64_t> next_to_leave() const;
  /// See Connection::packets_through().
  std::size_t packets_through(std::uint64_t work) const;

  /// Handles an acknowledge or x_acknowledge. A result other than `none` is the reason to fail the
  /// connection.
  [[nodiscard]] FailureCause on_acknowledge(const Packet& packet, Time now);
  /// Handles a READ response or atomic_acknowledge. `arrival` receives the address where its payload belongs.
  [[nodiscard]] FailureCause on_response(const Packet& packet, Time now, Arrival& arrival);
  void on_notification(Time now) { congestion_.on_notification(rtt_, now); }
  [[nodiscard]] FailureCause on_timer(Time now);
  Time next_deadline() const;

  /// Completes all posted work requests in order, with this cause. All work requests are marked as flushed,
  /// except the one that made the connection fail.
  void flush(FailureCause cause);

 private:
  /// Two kinds of PSNs are in the state `awaited`: the PSN of a READ or atomic that the peer has received,
  /// and the PSNs that a READ request reserves for its later responses. Only the response to such a PSN
  /// acknowledges it.
  enum class PacketState : std::uint8_t { in_flight, acknowledged, lost, awaited };
  using Index = std::uint16_t;
  static constexpr Index kNone = kWindowPackets;

  struct Posted {
    SendWork work;
    Sequence first = 0;
    std::uint32_t packets = 0;
  };
  /// The part of the state of a READ or atomic that is not in its Posted.
  struct RdAtomic {
    std::uint64_t work = 0;  ///< The index in works_.
    std::byte* memory = nullptr;
    std::uint64_t swap_or_add = 0, compare = 0;
    std::uint64_t original = 0;  ///< The value in the answer.
  };
  /// A READ request or atomic in flight. One READ may take several requests.
  struct RdAtomicRequest {
    Sequence next = 0, end = 0;   ///< [next, end) are the PSNs that have no answer yet.
    std::uint64_t rd_atomic = 0;  ///< The index in rd_atomics_.
  };
  struct PacketSlot {
    Time sent_at;
    /// The number of the packet's latest transmission. All transmissions of this connection are numbered in
    /// order.
    std::int64_t order = 0;
    std::uint64_t work = 0;                ///< The index in works_.
    std::uint32_t charge = 0;              ///< The number of bytes of the window that the packet takes.
    Index previous = kNone, next = kNone;  ///< The list of packets in flight, oldest transmission first.
    std::uint32_t egress_ns = 0;  ///< The time that the packet's latest transmission waited in this host.
    std::uint16_t transmissions = 0;
    PacketState state = PacketState::in_flight;
  };

  static Index index(Sequence s) {
    return static_cast<Index>(static_cast<std::size_t>(s) & (kWindowPackets - 1));
  }
  PacketSlot& slot(Sequence s) { return slots_[index(s)]; }
  Sequence sequence_at(Index i) const {
    return una_ + ((i - index(una_)) & static_cast<int>(kWindowPackets - 1));
  }

  // The functions for transmission.
  std::uint32_t payload_bytes(const Posted& posted, Sequence s) const;
  /// True if this packet is the last one of its message. A READ request or an atomic is always the last
  /// packet of its message.
  bool ends(Sequence s) {
    const Posted& posted = works_[slot(s).work];
    return is_rd_atomic(posted.work.opcode) || s + 1 == posted.first + posted.packets;
  }
  bool may_fill(std::uint32_t window) const;
  static bool is_rd_atomic(SendOpcode opcode) { return opcode >= SendOpcode::read; }
  static bool consumes_receive(SendOpcode opcode) {
    return opcode != SendOpcode::write && !is_rd_atomic(opcode);
  }
  void send(Sequence s, bool ask, Time now, TxPacket& out);
  std::size_t write_header(const Posted& posted, Sequence s, std::uint32_t bytes, bool ack_request,
                           TxPacket& out);

  // The functions for READ and atomics.
  Result<void> enqueue(const SendWork& work);
  Result<void> post_rd_atomic(const SendWork& work, RdAtomic rd_atomic);
  Sequence request_end(const Posted& posted, Sequence s) const;
  std::uint32_t response_bytes(const Posted& posted, Sequence from, Sequence end) const;
  bool may_request(const Posted& posted, Sequence s, Sequence end) const;
  void begin_request(const Posted& posted, Sequence s, Sequence end);
  std::size_t write_request(const Posted& posted, Sequence s, bool ack_request, TxPacket& out);
  /// The first PSN that needs a response, or next_ if there is none. A cumulative acknowledgement counts only
  /// up to this PSN.
  Sequence unanswered() const { return requests_.empty() ? next_ : requests_.front().next; }
  void note_received(Sequence to, Time now);
  void missing_response(Time now);

  // The functions for acknowledgements.
  void progress(const std::optional<Duration>& rtt, Time now);
  void acknowledge(Sequence s, Time now);
  void advance(Sequence to, Time now);
  void take_bitmap(const XAck& ack, Sequence first, Time now);
  void complete_works();
  std::optional<Duration> round_trip(const Packet& packet, Sequence cumulative, Time now);
  FailureCause receiver_not_ready(Sequence s, std::uint8_t syndrome, Time now);
  void sequence_error(Sequence s, Time now);
  FailureCause fail_at(Sequence s, FailureCause cause);

  // The functions for losses.
  void detect_losses();
  void mark_lost(Sequence s);
  /// Marks packets as lost that have been in flight for at least `waited`, and for longer than a round trip.
  void give_up_on_silent(Duration waited, Time now);
  void go_back();
  Duration least_timeout() const;
  Duration timeout() const;
  Duration patience() const;
  Duration longest_timeout() const;

  // The list of packets in flight.
  void append_in_flight(Index i);
  void remove_in_flight(Index i);

  const ConnectionConfig& config_;
  FixedRing<WorkCompletion>& completions_;
  ConnectionCounters& counters_;
  const SequenceSpace space_;
  Congestion congestion_;
  RoundTrip rtt_;
  OneWayQueue back_;             ///< The queue in which acknowledgements wait.
  std::uint32_t egress_ns_ = 0;  ///< The time that a packet waits in this host if it is sent now.

  FixedRing<Posted> works_;
  std::uint32_t outstanding_ = 0;  ///< Posted work requests whose completion has not been polled.
  std::optional<std::uint64_t> fault_;

  // una_ <= next_ <= assigned_. PSNs before una_ are acknowledged, [una_, next_) are sent, [next_, assigned_)
  // are posted and not yet sent.
  Sequence una_ = 0, next_ = 0, assigned_ = 0;
  std::uint64_t next_work_ = 0;  ///< The index in works_ that next_ belongs to.
  std::array<PacketSlot, kWindowPackets> slots_;
  /// For each PSN of [una_, next_): is its packet acknowledged, and does it count as lost?
  BitWindow acknowledged_, lost_;
  std::uint32_t lost_count_ = 0;
  Index oldest_ = kNone, newest_ = kNone;
  std::uint64_t in_flight_ = 0;  ///< The bytes charged to the window.
  std::int64_t next_order_ = 0;

  bool filling_ = true;   ///< True from the time when enough of the window is free until the window closes.
  bool limited_ = false;  ///< True if the window has held back a packet since the last acknowledgement.
  std::uint32_t unasked_ = 0;  ///< The number of packets since the last AckReq.

  // The number of the newest transmission that is known to have arrived: now, and before the answer that is
  // being handled.
  std::int64_t arrived_order_ = -1, arrived_before_ = -1;
  Time arrived_sent_at_{};
  std::int64_t reorder_ = kReorderPackets;
  std::uint32_t newly_acknowledged_ = 0;  ///< The bytes that the answer being handled has acknowledged.

  Time timer_start_{};
  Duration silence_{};          ///< The time that the requester has waited without any progress.
  std::uint32_t expiries_ = 0;  ///< The number of times that the timer has expired without any progress.
  std::uint32_t backoff_ = 0;   ///< The number of times that the timeout has been doubled.
  bool probe_ = false;          ///< True if one packet may exceed the window.
  /// True if two conditions have been met since the last expiry of the timer: packets were in flight all the
  /// time, and no packet that was sent only once has been acknowledged.
  bool only_probes_answered_ = false;
  std::optional<Time> resume_;  ///< The end of the wait after an RNR NAK.
  Sequence refused_ = -1;       ///< The packet whose RNR NAKs are being counted.
  std::uint32_t refusals_ = 0;
  Time first_refusal_{};

  SendCredits credits_;
  FixedRing<RdAtomic> rd_atomics_;
  FixedRing<RdAtomicRequest> requests_;
  /// The index in rd_atomics_ of the first READ or atomic whose requests have not all been sent.
  std::uint64_t next_rd_atomic_ = 0;
  /// The number of bytes of responses that are requested and have not arrived.
  std::uint64_t rd_atomic_bytes_ = 0;
  /// The peer has received all PSNs before this one, even if some of their responses have not arrived.
  Sequence received_to_ = 0;
  /// True if a missing response has been requested again since the last response arrived.
  bool asked_again_ = false;
};

}  // namespace rdmc::roce
