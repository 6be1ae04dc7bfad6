// The half of a connection that receives requests: checks them, says where their bytes go, completes receives
// and answers. In textbook mode it takes packets in PSN order only; with selective repeat X_WRITEs are placed
// as they come and their completions wait for their turn, except those of unordered WRITEs. Nothing is ever
// executed twice.
//
// Bodies are split by event: responder.cpp (PSN order, refusals, flush), responder_message.cpp
// (SEND and textbook WRITE), responder_x_write.cpp, responder_rd_atomic.cpp (READ and atomics),
// responder_answer.cpp. Memory of posted receives belongs
// to the application until their completion has been polled. Owned and driven by one Connection.
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

  /// Errors: would_block. Releases a WRITE with immediate that had waited for it.
  Result<void> post(const ReceiveWork& work);
  /// One completion of a posted receive has been polled.
  void release() { --outstanding_; }

  /// Any request. Afterwards `failure` may have a reason to fail the connection.
  Arrival on_request(const Packet& packet, Time now);
  FailureCause failure() const { return failure_; }
  /// In the error state: the peer repeats what was refused, so its NAK was lost.
  void repeat_refusal();

  /// A packet of the peer's met congestion: the peer will be told.
  void on_mark(Time now);
  /// The peer says that packets of ours did.
  void on_notification(Time now);

  void end_of_burst();
  /// READ responses and atomic ACKs as far as there is room, then at most one NAK and one acknowledgement:
  /// answers leave in the order of the PSNs they answer.
  std::size_t transmit(Time now, std::span<TxPacket> out, const Egress& egress);
  /// READ responses or atomic ACKs are waiting to be sent.
  bool is_responding() const { return responding_ > 0; }
  bool has_answer() const { return due_; }
  /// When an acknowledgement that waits for company is due.
  Time next_deadline() const;

  void flush(FailureCause cause);
  /// Where the next WRITE will land (Prediction). Not used if a part of a message lies there whose rest is
  /// missing.
  void expect(std::span<std::byte> where);
  Prediction& prediction() { return prediction_; }

 private:
  enum class Message : std::uint8_t { none, send, write };
  /// What an X_WRITE packet's completion needs when its turn comes.
  struct PendingCompletion {
    const std::byte* destination = nullptr;
    std::uint32_t bytes = 0, immediate = 0;
    bool ends = false, has_immediate = false;
    bool begins_unordered = false;
    bool completed = false;  ///< ahead of its turn
    bool placed = false;     ///< its turn came before a receive was posted; the bytes are there
  };
  struct Nak {
    std::uint8_t syndrome = 0;
    Sequence at = 0;
  };

  /// A READ or atomic that was accepted lately ("responder resource"): kept until max_dest_rd_atomic newer
  /// ones have come, so that it can be answered again.
  struct Resource {
    Opcode opcode{};
    Sequence first = 0, end = 0;   ///< PSNs of its answer
    Sequence start = 0, next = 0;  ///< [start, end) is being answered, up to next; next == end: done
    RemoteKey key{};
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t msn = 0;
    std::uint64_t original = 0;  ///< of an atomic
    bool answered = false;       ///< to its end, once at least
  };

  Arrival on_textbook(const Packet& packet, Sequence s);
  Arrival on_selective(const Packet& packet, Sequence s, Time now);

  // The packet whose turn it is.
  Arrival take_send(const Packet& packet);
  Arrival take_write(const Packet& packet);
  bool well_formed(const Packet& packet, Message message) const;
  Arrival take_x_write(const Packet& packet, Sequence s, bool in_order);
  void settle();
  void complete_ahead(Sequence s);
  void complete(CompletionKind kind, std::uint32_t bytes, std::optional<std::uint32_t> immediate,
                std::optional<RemoteKey> invalidated = std::nullopt);

  // READ and atomics.
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

  // Answers.
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
  std::uint32_t outstanding_ = 0;  ///< posted and not yet polled
  FailureCause failure_ = FailureCause::none;
  Nak refusal_;  ///< that failed the connection

  Sequence next_ = 0;  ///< all before it has been received
  std::uint32_t msn_ = 0;
  Message message_ = Message::none;         ///< under way at next_
  std::uint32_t message_bytes_ = 0;         ///< of it, received so far
  const std::byte* message_end_ = nullptr;  ///< of an X_WRITE: behind them
  // Textbook WRITE under way.
  RemoteKey write_key_{};
  std::uint64_t write_address_ = 0;
  std::uint32_t write_rest_ = 0;

  // Selective repeat.
  Sequence end_ = 0;    ///< behind the highest PSN received; > next_ while something is missing
  BitWindow received_;  ///< of [next_, end_)
  std::array<PendingCompletion, kWindowPackets> pending_completions_;
  bool waiting_ = false;  ///< the record at next_ needs a receive

  // Answers.
  std::optional<Nak> nak_;     ///< to be sent
  bool gap_reported_ = false;  ///< nothing but next_ is answered until it comes
  bool wanted_ = false, due_ = false;
  std::uint32_t unanswered_ = 0;  ///< new packets since the last answer
  Time first_unanswered_{};
  Sequence newest_ = -1;  ///< arrived last, at newest_at_
  Time newest_at_{};
  /// Bitmaps of the latest answers; a driver may hold a packet for a while when its port has no room.
  static constexpr std::size_t kAnswers = 4;
  std::array<std::array<std::byte, kMaxBitmapWords * 4>, kAnswers> bitmaps_;
  std::size_t next_bitmap_ = 0;

  FixedRing<Resource> resources_;  ///< in PSN order
  std::uint32_t responding_ = 0;   ///< of them, not yet answered to their end
  Duration response_pause_{};      ///< behind each kResponseBurst responses
  Time next_response_{};           ///< no response is sent sooner
  Time next_slowing_{};            ///< notifications before it change nothing

  bool notify_ = false;       ///< a congestion notification is to be sent
  Time next_notification_{};  ///< none becomes due sooner

  bool reported_none_ = false;  ///< our latest answer gave the peer no credits
};

}  // namespace rdmc::roce
