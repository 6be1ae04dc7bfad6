// One end of a connection. It keeps the bytes that were sent and are not yet in a record, the bytes that have
// arrived and were not read, the receive credit, and the error that ended the connection. It answers like
// Linux's TCP, error by error (net/ipv4/tcp.c), because programs were written for TCP. A stream of messages
// (see Messages) ends like a stream of AF_UNIX (net/unix). The channel that carries the records loses nothing
// and keeps the order. So there are no sequence numbers in the records and no timers; both sides count
// positions. The receive credit limits how many bytes this end must keep for a reader that does not read. A
// core without I/O. The caller must hold the sockets' lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dataplane/base/error.hpp"
#include "lib/socket/budget.hpp"
#include "lib/socket/byte_queue.hpp"
#include "lib/socket/chunks.hpp"
#include "lib/socket/events.hpp"
#include "lib/socket/lane_pool.hpp"
#include "lib/socket/records.hpp"

namespace rdmc::sockets {

/// A number of bytes, or an errno.
using Answer = std::expected<std::size_t, int>;

/// The content of a connection: bytes without boundaries (SOCK_STREAM), or whole messages (SOCK_SEQPACKET).
enum class ConnectionKind : std::uint8_t { bytes, messages };

class Stream;

/// Bytes that the peer's call lends, and the lane through which it lends them. The lane must stay until the
/// loan is settled.
struct Loan {
  std::shared_ptr<LaneReader> lane;
  LentBytes bytes;
};

/// The interface that carries a stream's records to the peer.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// Called when `stream` has something to send. The outlet then calls next() until nothing is left. The
  /// stream may be inside a call that has already accepted bytes, so this function must not fail.
  virtual void on_wants_to_send(Stream& stream) noexcept = 0;
  /// The human-readable name of what carries the records, for example "shm+udp" or "self".
  virtual const std::string& description() const = 0;
  /// Returns a lane, which bypasses the frames (see LanePool), or null if there is none.
  virtual std::unique_ptr<ClaimedLane> claim_lane() { return nullptr; }
  /// Returns memory of CopyPool::kBytes for a copy that goes to a slot, or null.
  virtual std::shared_ptr<std::byte[]> take_copy() { return nullptr; }
  /// Returns the memory quota of the peer. If a message from the peer is too long to wait in the stream, the
  /// memory in which its bytes are gathered is taken from this quota. Null means no limit.
  virtual std::shared_ptr<Budget> budget() { return nullptr; }
  /// Called when the peer is being informed that it may write into this slot. Called in the order of the
  /// grants.
  virtual void on_granted(Stream&, const OwnedSlot&) {}
};

/// The object that waits for changes of a stream: its socket.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// Called when something has changed that calls or polls may wait for. `data` is true if bytes have
  /// arrived.
  virtual void on_change(bool data) = 0;
};

class Stream {
 public:
  /// The limits for bytes that were accepted from the application and not sent, and for bytes that were
  /// received and not read. Each limit is twice Linux's default window. The values are not tuned.
  static constexpr std::size_t kSendBytes = 256 * 1024, kWindowBytes = 256 * 1024;
  /// How many bytes a peer may send before the application has accepted its connection.
  static constexpr std::size_t kFirstBytes = 16 * 1024;

  /// The values closed and connecting are TCP's CLOSE and SYN_SENT. The value open is for every state in
  /// which the connection exists.
  enum class State : std::uint8_t { closed, connecting, open };
  static constexpr unsigned kShutRead = 1, kShutWrite = 2;
  /// A connection asks for a lane when it has sent this number of bytes, or has made this number of sends.
  static constexpr std::uint64_t kBytesBeforeLane = 4 * 1024;
  static constexpr unsigned kSendsBeforeLane = 4;
  /// A call that waits advertises its remaining bytes if they are at least kLeastAdvertised. It copies the
  /// last kBehindAdvert bytes instead of advertising them, so that the reader is busy until the next call.
  static constexpr std::size_t kLeastAdvertised = 128 * 1024, kBehindAdvert = 64 * 1024;
  /// A connection without a lane asks for slots of the peer when it has sent kBytesBeforeSlots. From then on,
  /// sends of at least kLeastInSlot bytes go to slots.
  static constexpr std::uint64_t kBytesBeforeSlots = 512 * 1024;
  static constexpr std::size_t kLeastInSlot = 64 * 1024;
  /// The most copies that wait for slots or are in flight to slots.
  static constexpr std::size_t kMostStaged = 6;
  /// A call of send() copies at most this number of bytes, from the front of its bytes. See also
  /// would_lend().
  static constexpr std::size_t kMostCopied = std::max({kSendBytes, LanePool::kRingBytes, CopyPool::kBytes});

  explicit Stream(ConnectionKind kind = ConnectionKind::bytes) : kind_(kind) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  ConnectionKind kind() const { return kind_; }
  State state() const { return state_; }
  ConnectionId id() const { return id_; }
  /// Not null while the stream is open.
  Outlet* outlet() const { return outlet_; }
  /// Reports changes to `watcher` from now on. Null means no watcher any more.
  void watch(Watcher* watcher) { watcher_ = watcher; }

  // -- calls of the application; none of them blocks --

  /// Accepts as many bytes as there is space for. Errors: EAGAIN, EPIPE, or the error that ended the
  /// connection. A `caller` that is not null names a call that waits and then tries again with the rest of
  /// `bytes`. Then the bytes must stay unchanged until take_back(), because the peer may copy them from their
  /// memory.
  Answer send(std::span<const std::byte> bytes, const void* caller = nullptr);
  /// If a send of this length would be a long copy, returns memory for the first part of the copy; otherwise
  /// returns nullopt. The caller fills the memory without the lock and then calls end_copy(), which answers
  /// as send() does.
  std::optional<Chunk> begin_copy(std::size_t bytes);
  Answer end_copy(Chunk copy);
  /// Ends all lending by the call `caller`. Returns how many of its remaining bytes the peer has copied
  /// already, or nullopt if the call has lent no bytes.
  std::optional<std::size_t> take_back(const void* caller);
  /// Accepts all bytes of `head` and `body`, or nothing. A message that is longer than the whole buffer is
  /// accepted when the buffer is empty.
  Answer send_whole(std::span<const std::byte> head, std::span<const std::byte> bytes);
  /// Does the same for a message that is longer than the buffer and was already copied.
  Answer send_whole(ByteQueue message);
  /// Checks if a message of this length would be accepted. Errors: those of send().
  Answer check_send_whole(std::size_t bytes);
  /// Reads the next bytes of the peer's stream. Returns 0 at the end of the stream. Errors: EAGAIN, ENOTCONN,
  /// or the error that ended the connection.
  Answer receive(std::span<std::byte> out, bool peek = false);
  /// Returns the number of bytes that have arrived in records and were not read.
  std::size_t available() const { return received_.size(); }
  /// Returns roughly the number of bytes that receive() would copy now. A peer that writes in a lane may add
  /// bytes at any time.
  std::size_t unread() const;
  /// Shuts down the directions `how`: kShutRead, kShutWrite or the sum of these. Errors: ENOTCONN. The
  /// shutdown has its effect even if this error is returned, as in Linux.
  Answer shutdown(unsigned how);
  /// Closes this end. Must be the last call, when the socket is closed. Bytes that were sent before still go
  /// out. If the application leaves bytes unread or wants to `abort`, the peer's end is reset instead.
  void close(bool abort);
  /// Must be called when the peer has sent data that makes no sense. Resets the peer's end, and makes this
  /// end fail with `error`.
  void abandon(int error);
  /// Returns the value of SO_ERROR, which is the error that no call has reported yet, and clears it.
  int take_error();
  /// The events as poll(2) reports them: POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR.
  short events() const;
  bool has_been_open() const { return has_been_open_; }
  /// True if everything sent, and the end of the stream if there is one, was handed to the outlet.
  bool is_flushed() const { return send_.empty() && !has_chunk() && (fin_sent_ || !ends_); }
  /// The directions that were shut down by this side or by the peer: kShutRead, kShutWrite or the sum of
  /// these.
  unsigned shut() const { return shut_; }

  // -- lanes: memory that both applications' calls share --

  /// The lane in which the peer's bytes arrive, and the lane in which this side sends. Null if that direction
  /// uses frames.
  const LaneReader* incoming() const { return incoming_.get(); }
  const ClaimedLane* outgoing() const { return outgoing_.get(); }
  /// Returns at most `most` of the bytes that a waiting call of the peer lends, if these are the next bytes
  /// to be read. The caller must copy them without the lock, and then settle or decline the loan. receive()
  /// does not read lent bytes. `peeked` is the number of bytes before them that the caller has peeked at.
  std::optional<Loan> lent(std::size_t most, std::size_t peeked = 0);
  /// False if the peer lends nothing now.
  bool may_be_lent() const { return incoming_ && incoming_->may_be_lent(); }
  /// Must be called when the caller has copied the first `count` bytes of the loan. Returns how many of the
  /// copied bytes are valid. These bytes count as read unless `peek`.
  std::size_t settle(const Loan& loan, std::size_t count, bool peek);
  /// Asks the peer to copy the lent bytes itself. Must be called if their pages are absent, because waiting
  /// for the pages could last for ever.
  void decline(const Loan& loan);
  /// True if send() of this number of bytes would advertise them, except at most the last kBehindAdvert
  /// bytes, which it would copy.
  bool would_lend(std::size_t bytes, const void* caller) const;
  /// Asks the peer to report by records what it does in lanes. Must be called when no thread of this side
  /// sleeps, because then the peer can wake no thread.
  void want_records();
  Result<void> on_lane(std::unique_ptr<LaneReader> lane);
  void on_pulse();

  // -- without copies (see chunks.hpp) --

  /// Accepts all of `bytes`. They must stay unchanged until is_sent(`number`), and `owner` keeps their
  /// memory. If the peer gives no slots to this stream, copies as many bytes as there is space for. Errors:
  /// those of send().
  Answer send_in_place(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       std::uint64_t& number);
  /// True if send_in_place() has returned this `number`. 0 always counts as returned.
  bool has_given(std::uint64_t number) const { return number <= (chunks_ ? chunks_->asked : 0); }
  /// True if the memory of this send, and of every send before it, is no longer used.
  bool is_sent(std::uint64_t number) const;
  /// Returns the next bytes to be read, and counts them as read, if they are in one slot and are at most
  /// `most`. Otherwise returns nullopt.
  std::optional<ArrivedChunk> take_chunk(std::size_t most = SIZE_MAX);
  /// Gives a slot back to the peer, after the bytes in the slot were read.
  void give_back(OwnedSlot slot);
  /// Returns the number of payload bytes that were copied on this side.
  std::uint64_t copied() const { return copied_; }
  void count_copied(std::size_t bytes) { copied_ += bytes; }

  bool has_chunk() const { return chunks_ && !chunks_->outgoing.empty(); }
  bool has_chunks() const { return chunks_ != nullptr; }
  /// Returns the next chunk that the channel must write. It must be written after all records that were
  /// returned before it.
  std::optional<ChunkWrite> next_chunk();
  /// Must be called in the order of next_chunk(), when the chunk is in the peer's memory or will never be
  /// there.
  void on_chunk_sent(const Chunk& chunk);
  /// Handle grants of slots and requests for slots by the peer. Errors of both: protocol_error. For
  /// on_grant(), this means that this side has not asked, or that there are more slots than exist. For
  /// on_bulk(), it means that the connection has messages or is not open, or that the peer asks again.
  Result<void> on_grant(const Grant& grant);
  Result<void> on_bulk();
  /// Gives `slots` to the peer, which has asked for slots. If `slots` is empty, the peer is informed that it
  /// gets none.
  void grant(std::deque<OwnedSlot> slots);
  /// Must be called when the peer has written `bytes` bytes into a granted slot. Errors: protocol_error.
  Result<void> on_chunk(std::uint32_t slot, std::size_t bytes);
  /// Returns the slots into which the peer may still write. Must be called after the stream has ended.
  std::deque<OwnedSlot> take_granted();
  bool has_heard_end() const { return fin_received_; }

  // -- the beginning --

  /// Replaces `last`, a stream that has failed. Takes over its watcher, its error, and its directions that
  /// were shut down.
  void take_the_place_of(Stream& last);
  /// connect() begins to connect. ask() then asks the peer of `outlet` for the connection `id`.
  void connect();
  void ask(Outlet& outlet, ConnectionId id);
  /// Forgets the outlet, so that another process may be asked. The outlet's process must send nothing to this
  /// stream any more.
  void forget_outlet() { outlet_ = nullptr; }
  void on_accepted(std::uint64_t limit);
  /// Must be called when the peer has refused the connection or cannot be reached. `error` is ECONNREFUSED,
  /// ETIMEDOUT or another errno.
  void on_refused(int error);
  /// Returns to the state before connect(), after a failed attempt or in order to stop an attempt.
  void disconnect();
  /// Accepts a connection that the peer has asked for. The peer waits until it may send.
  void accept(Outlet& outlet, ConnectionId id, std::uint64_t limit);
  /// let_begin() lets the peer send kFirstBytes. let_go_on() gives the peer the whole window, when the
  /// application has accepted the connection.
  void let_begin() { granted_ = kFirstBytes; }
  void let_go_on();

  // -- records from the peer --

  /// Each of these functions handles one record of the peer. Errors: protocol_error if the peer may not send
  /// this record now, for example more bytes than granted, bytes after the end, or a credit that shrinks.
  Result<void> on_data(std::span<const std::byte> bytes);
  Result<void> on_credit(std::uint64_t limit);
  Result<void> on_fin();
  Result<void> on_stop();
  void on_reset() { fail_with(reset_error()); }
  /// Must be called when the peer is lost. `error` is ECONNRESET, ETIMEDOUT or another errno.
  void on_lost(int error);

  // -- records to the peer --

  bool wants_to_send() const;
  /// Returns the next record, or nullopt if there is none now. `body` is memory for the record's body, at
  /// least kMostControlBytes - kRecordHeadBytes. The data of the returned record are already in `body`.
  std::optional<Record> next(std::span<std::byte> body);
  /// Returns the receive credit: how many bytes the peer may send, counted from the beginning.
  std::uint64_t limit() const { return granted_; }
  /// True if the connection has ended on this side. Then at most a reset has still to be sent (see
  /// wants_to_send()).
  bool is_over() const { return is_over_; }

 private:
  /// True if the connection ends when it is shut down in both directions. A stream of messages ends only when
  /// one side closes it.
  bool ends_with_both_halves() const { return kind_ == ConnectionKind::bytes || is_orphan_; }
  bool shut_read() const { return (shut_ & kShutRead) != 0; }
  bool shut_write() const { return (shut_ & kShutWrite) != 0; }
  std::optional<int> refusal();
  int reset_error() const;
  void fail_with(int error);
  void set_closed();
  void reset_peer();
  bool owes_credit() const;
  bool owes_stop() const { return kind_ == ConnectionKind::messages && stops_ && !stop_sent_; }
  bool has_lane_bytes() const { return incoming_ && incoming_->available() > 0; }
  bool has_unread() const {
    return !received_.empty() || has_lane_bytes() || (chunks_ && !chunks_->arrived.empty());
  }
  bool takes_lane();
  void refuse_more();
  Answer send_in_lane(std::span<const std::byte> bytes, const void* caller);
  void cancel_advert();
  void end_lane();
  std::size_t receive_due(std::span<std::byte> out, bool peek);
  std::size_t receive_from_lane(std::span<std::byte> out, bool peek);
  void answer_writer();
  void changed(bool data = false);
  void stir();

  const ConnectionKind kind_;
  Outlet* outlet_ = nullptr;
  Watcher* watcher_ = nullptr;
  ConnectionId id_{};
  ByteQueue send_, received_;
  std::unique_ptr<ClaimedLane> outgoing_;
  std::shared_ptr<LaneReader> incoming_;  // its bytes come after those in `received_`
  unsigned sends_ = 0;
  const void* advertiser_ = nullptr;  // the call whose bytes the last advert offered
  // How many bytes of `advertiser_` the peer has copied that were not reported to that call yet.
  std::size_t gone_ = 0;
  struct Chunks {
    std::deque<Chunk> outgoing;  // the chunks that are not written yet
    std::deque<Grant> grants;    // the grants of the peer that are not used yet
    std::uint64_t asked = 0, sent = 0;
    std::size_t under_way = 0;
    std::size_t staged = 0;  // the number of chunks that are copies, waiting or in flight
    bool must_wait = false;  // true if a send in place found no space, or has no answer yet
    bool has_asked = false, must_ask = false, is_answered = false, is_refused = false;
    std::deque<OwnedSlot> to_grant, granted;
    bool was_asked = false, must_refuse = false;
    std::deque<ArrivedChunk> arrived;
  };
  void ask_for_slots();
  bool takes_slots(std::size_t bytes);
  Answer send_staged(std::span<const std::byte> bytes);
  bool needs_copy() const { return chunks_->outgoing.empty() || chunks_->outgoing.back().room() == 0; }
  std::optional<Chunk> new_copy();
  bool takes_in_place() const;
  bool has_room() const;
  Chunks& chunks();
  bool is_chunk_due() const;
  std::size_t queue_due() const;
  std::size_t read_queue(std::span<std::byte> out, bool peek);
  std::optional<Record> next_of_chunks();
  std::unique_ptr<Chunks> chunks_;  // most streams have none
  std::uint64_t copied_ = 0;
  std::size_t refused_ = 0;                             // the length of a message for which there was no
                                                        // space
  std::uint64_t sent_ = 0, limit_ = 0;                  // bytes sent in records, and the receive credit
  std::uint64_t arrived_ = 0, granted_ = kWindowBytes;  // bytes arrived in records, and the granted credit
  int error_ = 0;
  unsigned shut_ = 0;
  State state_ = State::closed;
  // True if this side has ended its direction while the connection was open. An earlier shutdown is not
  // reported to the peer.
  bool ends_ = false;
  bool fin_received_ = false;   // true if the peer has ended the stream in order
  bool stop_received_ = false;  // true if the peer reads no more messages; never true for a stream of bytes
  bool fin_sent_ = false, must_reset_ = false, must_pulse_ = false;
  bool stops_ = false, stop_sent_ = false;  // `stops_` is true if this side reads no more
  bool is_narrow_ = false;                  // true if the application has not accepted the connection yet
  bool is_orphan_ = false;                  // true if the socket is closed
  bool is_over_ = false, has_been_open_ = false;
};

}  // namespace rdmc::sockets
