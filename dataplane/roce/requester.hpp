// The half of a connection that sends requests and understands their answers. It keeps one slot per PSN under
// way, in a ring by sequence number for acknowledgements and in a list by time of transmission for loss
// detection. Both modes share all of it: go-back-N is the case that every packet under way is lost at once.
//
// Bodies are split by event: requester.cpp (post, flush, window), requester_transmit.cpp, requester_ack.cpp,
// requester_rd_atomic.cpp (READ and atomics), retransmit.cpp (what is lost, timers, RNR). Posted memory
// belongs to the application until its completion has been polled. Owned and driven by one Connection.
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

  /// Errors: would_block, invalid_argument.
  Result<void> post(const SendWork& work);
  Result<void> post_read(const ReadWork& work);
  Result<void> post_atomic(const AtomicWork& work);
  /// One completion of a posted work has been polled.
  void release() { --outstanding_; }

  /// Retransmissions first, then new packets, as far as the window allows.
  std::size_t transmit(Time now, std::span<TxPacket> out, const Egress& egress);

  /// The posted work, counted from 0, of which a packet is to leave next; nothing if none is waiting.
  std::optional<std::uint64_t> next_to_leave() const;

  /// acknowledge or x_acknowledge. The answer other than none is a reason to fail the connection.
  [[nodiscard]] FailureCause on_acknowledge(const Packet& packet, Time now);
  /// A READ response or atomic_acknowledge; `arrival` says where its payload belongs.
  [[nodiscard]] FailureCause on_response(const Packet& packet, Time now, Arrival& arrival);
  void on_notification(Time now) { congestion_.on_notification(rtt_, now); }
  [[nodiscard]] FailureCause on_timer(Time now);
  Time next_deadline() const;

  /// Completes everything posted in order; the work at fault, if one is, with the cause as its own.
  void flush(FailureCause cause);

 private:
  /// awaited: of a READ or atomic that the peer has, or a later response of a READ request; only its response
  /// acknowledges it.
  enum class PacketState : std::uint8_t { in_flight, acknowledged, lost, awaited };
  using Index = std::uint16_t;
  static constexpr Index kNone = kWindowPackets;

  struct Posted {
    SendWork work;
    Sequence first = 0;
    std::uint32_t packets = 0;
  };
  /// What a READ or atomic needs beyond its Posted.
  struct RdAtomic {
    std::uint64_t work = 0;  ///< index in works_
    std::byte* memory = nullptr;
    std::uint64_t swap_or_add = 0, compare = 0;
    std::uint64_t original = 0;  ///< answered
  };
  /// A READ request (a work may take several) or atomic under way.
  struct RdAtomicRequest {
    Sequence next = 0, end = 0;   ///< PSNs not yet answered
    std::uint64_t rd_atomic = 0;  ///< index in rd_atomics_
  };
  struct PacketSlot {
    Time sent_at;
    std::int64_t order = 0;                ///< of its latest transmission among all of this connection
    std::uint64_t work = 0;                ///< index in works_
    std::uint32_t charge = 0;              ///< bytes of the window it takes
    Index previous = kNone, next = kNone;  ///< in the list of packets in flight, oldest transmission first
    std::uint32_t egress_ns = 0;           ///< that its latest transmission waited in this host
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

  // Transmission.
  std::uint32_t payload_bytes(const Posted& posted, Sequence s) const;
  /// Whether this packet is the last of its message; a READ request or atomic always is.
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

  // READ and atomics.
  Result<void> enqueue(const SendWork& work);
  Result<void> post_rd_atomic(const SendWork& work, RdAtomic rd_atomic);
  Sequence request_end(const Posted& posted, Sequence s) const;
  std::uint32_t response_bytes(const Posted& posted, Sequence from, Sequence end) const;
  bool may_request(const Posted& posted, Sequence s, Sequence end) const;
  void begin_request(const Posted& posted, Sequence s, Sequence end);
  std::size_t write_request(const Posted& posted, Sequence s, bool ack_request, TxPacket& out);
  /// Nothing from here on can be acknowledged but by its response.
  Sequence unanswered() const { return requests_.empty() ? next_ : requests_.front().next; }
  void note_received(Sequence to, Time now);
  void missing_response(Time now);

  // Acknowledgement.
  void progress(const std::optional<Duration>& rtt, Time now);
  void acknowledge(Sequence s, Time now);
  void advance(Sequence to, Time now);
  void take_bitmap(const XAck& ack, Sequence first, Time now);
  void complete_works();
  std::optional<Duration> round_trip(const Packet& packet, Sequence cumulative, Time now);
  FailureCause receiver_not_ready(Sequence s, std::uint8_t syndrome, Time now);
  void sequence_error(Sequence s, Time now);
  FailureCause fail_at(Sequence s, FailureCause cause);

  // Loss.
  void detect_losses();
  void mark_lost(Sequence s);
  /// Those that have been under way for so long, and for longer than a round trip takes, are lost.
  void give_up_on_silent(Duration waited, Time now);
  void go_back();
  Duration least_timeout() const;
  Duration timeout() const;
  Duration patience() const;

  // The list of packets in flight.
  void append_in_flight(Index i);
  void remove_in_flight(Index i);

  const ConnectionConfig& config_;
  FixedRing<WorkCompletion>& completions_;
  ConnectionCounters& counters_;
  const SequenceSpace space_;
  Congestion congestion_;
  RoundTrip rtt_;
  OneWayQueue back_;             ///< in front of acknowledgements
  std::uint32_t egress_ns_ = 0;  ///< that a packet sent now waits in this host

  FixedRing<Posted> works_;
  std::uint32_t outstanding_ = 0;  ///< posted and not yet polled
  std::optional<std::uint64_t> fault_;

  // una_ <= next_ <= assigned_: acknowledged | under way | posted, not yet sent.
  Sequence una_ = 0, next_ = 0, assigned_ = 0;
  std::uint64_t next_work_ = 0;  ///< that next_ belongs to
  std::array<PacketSlot, kWindowPackets> slots_;
  BitWindow acknowledged_, lost_;  ///< of [una_, next_)
  std::uint32_t lost_count_ = 0;
  Index oldest_ = kNone, newest_ = kNone;
  std::uint64_t in_flight_ = 0;  ///< bytes charged
  std::int64_t next_order_ = 0;

  bool filling_ = true;        ///< since the window opened wide enough; until it closes
  bool limited_ = false;       ///< the window has held something back since the last acknowledgement
  std::uint32_t unasked_ = 0;  ///< packets since the last AckReq

  // The newest transmission known to have arrived, and that before the answer being looked at.
  std::int64_t arrived_order_ = -1, arrived_before_ = -1;
  Time arrived_sent_at_{};
  std::int64_t reorder_ = kReorderPackets;
  std::uint32_t newly_acknowledged_ = 0;  ///< bytes, by the packet being looked at

  Time timer_start_{};
  Duration silence_{};          ///< waited without any progress
  std::uint32_t expiries_ = 0;  ///< without progress
  std::uint32_t backoff_ = 0;   ///< doublings of the timeout
  bool probe_ = false;          ///< one packet may exceed the window
  /// Since the last expiry nothing was answered that had been sent once, and something has been under way.
  bool only_probes_answered_ = false;
  std::optional<Time> resume_;  ///< after an RNR NAK
  Sequence refused_ = -1;       ///< whose RNR NAKs are being counted
  std::uint32_t refusals_ = 0;
  Time first_refusal_{};

  SendCredits credits_;
  FixedRing<RdAtomic> rd_atomics_;
  FixedRing<RdAtomicRequest> requests_;
  std::uint64_t next_rd_atomic_ = 0;   ///< of rd_atomics_, whose requests have not all been sent
  std::uint64_t rd_atomic_bytes_ = 0;  ///< of responses asked for and not yet here
  Sequence received_to_ = 0;           ///< the peer has all before it, though responses are missing
  bool asked_again_ = false;           ///< for a missing response, since the last that came
};

}  // namespace rdmc::roce
