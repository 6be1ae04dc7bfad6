// The half of a connection that receives requests. It checks them, determines where their payload belongs,
// completes receives, and answers. In standard mode it accepts packets in PSN order only. With selective
// repeat it places X_WRITEs as they arrive. They are completed in PSN order, except unordered WRITEs. No
// SEND, WRITE or atomic is executed twice.
//
// The functions are in several files, according to the event that they handle: responder.cpp (PSN order,
// refusals, flush), responder_message.cpp (SEND and standard-mode WRITE), responder_x_write.cpp,
// responder_rd_atomic.cpp (READ and atomics), responder_answer.cpp. The application owns the memory of posted
// receives and must keep it valid until their completion has been polled. One Connection owns and drives a
// Responder.
#pragma once

#include <array>
#include <optional>

#include "dataplane/roce/bit_window.hpp"
#include "dataplane/roce/connection.hpp"
#include "dataplane/roce/fixed_ring.hpp"
#include "dataplane/roce/prediction.hpp"

namespace rdmc::roce {

class Responder {
 public:
  Responder(const ConnectionConfig& config, RegionTable& regions, FixedRing<WorkCompletion>& completions,
            ConnectionCounters& counters);

  /// Posts a receive. If a WRITE with immediate was waiting for a receive, this call completes the WRITE.
  /// Errors: would_block if receive_depth is reached.
  Result<void> post(const ReceiveWork& work);
  /// Called when one completion of a posted receive has been polled.
  void release() { --outstanding_; }

  /// Handles a request of any kind. If the request makes the connection fail, failure() returns the reason
  /// afterwards.
  Arrival on_request(const Packet& packet, Time now);
  FailureCause failure() const { return failure_; }
  /// Called in the error state when a request arrives. The NAK is sent again, because the peer may not have
  /// received it.
  void repeat_refusal();

  /// Called when a packet of the peer met congestion. The peer will be notified.
  void on_mark(Time now);
  /// Called when the peer reports that packets of this side met congestion.
  void on_notification(Time now);

  void end_of_burst();
  /// Fills `out` with READ responses and atomic ACKs. If there is space left, at most one NAK and one
  /// acknowledgement follow. So answers leave in the order of the PSNs that they answer. Two kinds of packets
  /// may leave before the responses: a congestion notification and a selective acknowledgement. Returns the
  /// number of packets.
  std::size_t transmit(Time now, std::span<TxPacket> out, const Egress& egress);
  /// True if READ responses or atomic ACKs are waiting to be sent.
  bool is_responding() const { return responding_ > 0; }
  bool has_answer() const { return due_; }
  /// The time at which the next answer is due, or Time::never() if no answer is waiting.
  Time next_deadline() const;

  void flush(FailureCause cause);
  /// Gives a hint to Prediction that the next WRITE goes to this memory. The hint is not used if the peer is
  /// not permitted to write all of this memory, or if the memory contains an incomplete message.
  void expect(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes);
  Prediction& prediction() { return prediction_; }

 private:
  enum class Message : std::uint8_t { none, send, write };
  /// The data that is needed to complete an X_WRITE packet when all earlier packets have arrived.
  struct PendingCompletion {
    const std::byte* destination = nullptr;
    std::uint32_t bytes = 0, immediate = 0;
    bool ends = false, has_immediate = false;
    bool begins_unordered = false;
    bool completed = false;  ///< The packet was completed before all earlier packets were.
    /// The packet is the next one in PSN order, but no receive is posted for it. Its payload is in place.
    bool placed = false;
  };
  struct Nak {
    std::uint8_t syndrome = 0;
    Sequence at = 0;
  };

  /// A READ or atomic that was accepted recently ("responder resource"). It is kept until max_dest_rd_atomic
  /// newer ones have arrived, so that it can be answered again.
  struct Resource {
    Opcode opcode{};
    Sequence first = 0, end = 0;  ///< [first, end) are the PSNs of its answer.
    /// [start, end) are the PSNs that are being answered now. The answers of [start, next) have been sent. So
    /// next == end if all answers have been sent.
    Sequence start = 0, next = 0;
    RemoteKey key{};
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t msn = 0;
    std::uint64_t original = 0;  ///< For an atomic: the value before the operation.
    bool answered = false;       ///< The request has been answered completely at least once.
  };

  Arrival on_standard_mode(const Packet& packet, Sequence s);
  Arrival on_selective(const Packet& packet, Sequence s, Time now);

  // The functions for the packet at next_.
  Arrival take_send(const Packet& packet);
  Arrival take_write(const Packet& packet);
  bool well_formed(const Packet& packet, Message message) const;
  Arrival take_x_write(const Packet& packet, Sequence s, bool in_order);
  void settle();
  void complete_ahead(Sequence s);
  void complete(CompletionKind kind, std::uint32_t bytes, std::optional<std::uint32_t> immediate,
                std::optional<RemoteKey> invalidated = std::nullopt);

  // The functions for READ and atomics.
  Arrival take_read(const Packet& packet);
  Arrival take_atomic(const Packet& packet);
  Arrival take_rd_atomic(const Packet& packet);
  bool may_accept_rd_atomic() const;
  void accept(const Resource& resource);
  void replay(const Packet& packet, Sequence s);
  std::size_t respond(Time now, std::span<TxPacket> out);
  void write_notification(TxPacket& out);
  bool write_response(Resource& resource, TxPacket& out);
  std::uint8_t acknowledge_syndrome() const;

  // The functions for answers.
  Arrival refuse(std::uint8_t syndrome, FailureCause cause) { return refuse_at(next_, syndrome, cause); }
  Arrival refuse_at(Sequence at, std::uint8_t syndrome, FailureCause cause);
  Arrival not_ready();
  void count_new(Time now);
  PendingCompletion& pending(Sequence s) {
    return pending_completions_[static_cast<std::size_t>(s) & (kWindowPackets - 1)];
  }
  void write_nak(TxPacket& out);
  void write_acknowledgement(Time now, const Egress& egress, TxPacket& out);

  const ConnectionConfig& config_;
  RegionTable& regions_;
  FixedRing<WorkCompletion>& completions_;
  ConnectionCounters& counters_;
  const SequenceSpace space_;
  Prediction prediction_;

  FixedRing<ReceiveWork> receives_;
  std::uint32_t outstanding_ = 0;  ///< Posted receives whose completion has not been polled.
  FailureCause failure_ = FailureCause::none;
  Nak refusal_;  ///< The NAK that failed the connection.

  Sequence next_ = 0;  ///< All PSNs before this one have been received.
  std::uint32_t msn_ = 0;
  Message message_ = Message::none;  ///< The kind of message that is being received at next_.
  std::uint32_t message_bytes_ = 0;  ///< The number of bytes of message_ that have been received.
  /// For X_WRITEs, the memory address after the bytes of message_ that have been received.
  const std::byte* message_end_ = nullptr;
  // The standard-mode WRITE that is being received.
  RemoteKey write_key_{};
  std::uint64_t write_address_ = 0;
  std::uint32_t write_rest_ = 0;

  // The state of selective repeat.
  /// The PSN after the highest one received. It is above next_ while a packet is missing.
  Sequence end_ = 0;
  /// For each PSN of [next_, end_), true if its packet has been received.
  BitWindow received_;
  std::array<PendingCompletion, kWindowPackets> pending_completions_;
  bool waiting_ = false;  ///< True if the pending completion at next_ needs a receive.

  // The state of the answers.
  std::optional<Nak> nak_;     ///< The NAK that is to be sent.
  bool gap_reported_ = false;  ///< True if the gap at next_ has been reported. It is not reported again.
  bool wanted_ = false, due_ = false;
  std::uint32_t unanswered_ = 0;  ///< The number of new packets since the last answer.
  Time first_unanswered_{};
  Sequence newest_ = -1;  ///< The PSN of the packet that arrived last.
  Time newest_at_{};      ///< The time at which the packet newest_ arrived.
  /// The number of answers whose bitmaps are kept. The bitmaps are needed because a driver may keep a packet
  /// for a while if its port has no space.
  static constexpr std::size_t kAnswers = 4;
  std::array<std::array<std::byte, kMaxBitmapWords * 4>, kAnswers> bitmaps_;
  std::size_t next_bitmap_ = 0;

  FixedRing<Resource> resources_;  ///< The kept requests, in PSN order.
  std::uint32_t responding_ = 0;   ///< The number of kept requests whose answer is not yet sent completely.
  Duration response_pause_{};      ///< The pause after each kResponseBurst responses.
  Time next_response_{};           ///< No response is sent before this time.
  Time next_slowing_{};            ///< Notifications that arrive before this time change nothing.

  bool notify_ = false;       ///< True if a congestion notification is to be sent.
  Time next_notification_{};  ///< No notification becomes due before this time.

  bool reported_none_ = false;  ///< True if the latest answer gave the peer no credits.
};

}  // namespace rdmc::roce
