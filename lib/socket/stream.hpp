// One end of a connection: the bytes that were sent and are not yet in a record, the bytes that have arrived
// and were not read, the receive credit, and the error that ended it. It answers like Linux's TCP, error by
// error (net/ipv4/tcp.c), because programs were written for that. A stream of messages (see Messages) ends
// like one of AF_UNIX (net/unix). The channel below loses nothing and keeps the order. So there are no
// sequence numbers on the wire and no timers; both sides count positions. Receive credit limits how many
// bytes a reader that does not read must keep. A core without I/O. The caller must hold the sockets' lock.
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

/// A count, or an errno.
using Answer = std::expected<std::size_t, int>;

/// The content of a connection: bytes without boundaries (SOCK_STREAM), or whole messages (SOCK_SEQPACKET).
enum class ConnectionKind : std::uint8_t { bytes, messages };

class Stream;

/// Bytes that the peer's call lends, and the lane, which must stay until the loan is settled.
struct Loan {
  std::shared_ptr<LaneReader> lane;
  LentBytes bytes;
};

/// The interface that carries a stream's records to the peer.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// `stream` has something to send. The outlet then calls next() until nothing is left. The stream may be in
  /// the middle of a call whose bytes are already taken, so this function must not fail.
  virtual void on_wants_to_send(Stream& stream) noexcept = 0;
  /// The human-readable name of what carries the records, for example "shm+udp" or "self".
  virtual const std::string& description() const = 0;
  /// Returns a lane, which bypasses the frames (see LanePool), or null if there is none.
  virtual std::unique_ptr<ClaimedLane> claim_lane() { return nullptr; }
  /// Returns memory of CopyPool::kBytes for a copy that goes to a slot, or null.
  virtual std::shared_ptr<std::byte[]> take_copy() { return nullptr; }
  /// The memory quota of the peer, for bytes that are kept beyond its windows. Null means no limit.
  virtual std::shared_ptr<Budget> budget() { return nullptr; }
  /// The peer is being told that it may write this slot. Called in the order of the grants.
  virtual void on_granted(Stream&, const OwnedSlot&) {}
};

/// The object that waits for changes of a stream: its socket.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// Something has changed that calls or polls may wait for. `data`: bytes have arrived.
  virtual void on_change(bool data) = 0;
};

class Stream {
 public:
  /// The limits for bytes that were taken from the application and not sent, and for bytes that were received
  /// and not read. Each is two of Linux's default windows; the values are not tuned.
  static constexpr std::size_t kSendBytes = 256 * 1024, kWindowBytes = 256 * 1024;
  /// How many bytes a peer may send before the application has accepted its connection.
  static constexpr std::size_t kFirstBytes = 16 * 1024;

  /// closed and connecting are TCP's CLOSE and SYN_SENT. open is every state in which the connection exists.
  enum class State : std::uint8_t { closed, connecting, open };
  static constexpr unsigned kShutRead = 1, kShutWrite = 2;
  /// A connection asks for a lane when it has sent this number of bytes, or has made this number of sends.
  static constexpr std::uint64_t kBytesBeforeLane = 4 * 1024;
  static constexpr unsigned kSendsBeforeLane = 4;
  /// A call that waits advertises its remaining bytes if they are at least kLeastAdvertised. The last
  /// kBehindAdvert bytes are copied instead, so that the reader is busy until the next call.
  static constexpr std::size_t kLeastAdvertised = 128 * 1024, kBehindAdvert = 64 * 1024;
  /// A connection without a lane asks for the peer's slots when it has sent kBytesBeforeSlots. Sends of at
  /// least kLeastInSlot bytes then go there.
  static constexpr std::uint64_t kBytesBeforeSlots = 512 * 1024;
  static constexpr std::size_t kLeastInSlot = 64 * 1024;
  /// The most copies that wait for slots or are in flight to them.
  static constexpr std::size_t kMostStaged = 6;
  /// send() copies at most this number of bytes from the front of its bytes. See also would_lend().
  static constexpr std::size_t kMostCopied = std::max({kSendBytes, LanePool::kRingBytes, CopyPool::kBytes});

  explicit Stream(ConnectionKind kind = ConnectionKind::bytes) : kind_(kind) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  ConnectionKind kind() const { return kind_; }
  State state() const { return state_; }
  ConnectionId id() const { return id_; }
  /// Not null while the stream is open.
  Outlet* outlet() const { return outlet_; }
  /// Null means no watcher any more.
  void watch(Watcher* watcher) { watcher_ = watcher; }

  // -- calls of the application; none of them blocks --

  /// Takes as many bytes as there is room for. Errors: EAGAIN, EPIPE, or the error that ended the connection.
  /// A `caller` that is not null names a call that waits and tries again with the rest of `bytes`. The bytes
  /// must stay unchanged until take_back(), because the peer may take them from there.
  Answer send(std::span<const std::byte> bytes, const void* caller = nullptr);
  /// If a send of this length would be a long copy, returns memory for its first part, otherwise nullopt. The
  /// caller fills the memory without the lock and then calls end_copy(), which answers as send() does.
  std::optional<Chunk> begin_copy(std::size_t bytes);
  Answer end_copy(Chunk copy);
  /// The call `caller` lends nothing any more. Returns how many of its remaining bytes have gone already, or
  /// nullopt if it had lent none.
  std::optional<std::size_t> take_back(const void* caller);
  /// Takes all bytes of both, or nothing. A message that is longer than the whole buffer is taken when the
  /// buffer is empty.
  Answer send_whole(std::span<const std::byte> head, std::span<const std::byte> bytes);
  /// The same for a message that is longer than the buffer and was already copied.
  Answer send_whole(ByteQueue message);
  /// Checks if a message of this length would be taken. Errors: those of send().
  Answer check_send_whole(std::size_t bytes);
  /// Errors: EAGAIN, ENOTCONN, or the error that ended the connection. Returns 0 at the end of the peer's
  /// stream.
  Answer receive(std::span<std::byte> out, bool peek = false);
  /// The number of bytes that have arrived in records and were not read.
  std::size_t available() const { return received_.size(); }
  /// Roughly the number of bytes that receive() would copy now. A peer that writes in a lane may add to them
  /// at any time.
  std::size_t unread() const;
  /// `how` is kShutRead, kShutWrite or both. Errors: ENOTCONN. The shutdown has its effect even then, as in
  /// Linux.
  Answer shutdown(unsigned how);
  /// Must be the last call, when the socket is closed. What was sent still goes out. If the application
  /// leaves bytes unread or wants to `abort`, the peer's end is reset instead.
  void close(bool abort);
  /// The peer has sent data that makes no sense. The peer's end is reset, and this end fails with `error`.
  void abandon(int error);
  /// The value of SO_ERROR: the error that no call has reported yet. It is cleared.
  int take_error();
  /// The events as poll(2) reports them: POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR.
  short events() const;
  bool has_been_open() const { return has_been_open_; }
  /// True if everything sent, and the end of the stream if there is one, was handed to the outlet.
  bool is_flushed() const { return send_.empty() && !has_chunk() && (fin_sent_ || !ends_); }
  /// kShutRead, kShutWrite or both: the directions that were shut down by this side or by the peer.
  unsigned shut() const { return shut_; }

  // -- lanes: memory that both applications' calls share --

  /// The lanes in which the peer's bytes arrive and in which this side sends. Null if that direction uses
  /// frames.
  const LaneReader* incoming() const { return incoming_.get(); }
  const ClaimedLane* outgoing() const { return outgoing_.get(); }
  /// Returns at most `most` of the bytes that a waiting call of the peer lends and that are to be read next.
  /// The caller must copy them without the lock, and then settle or decline the loan. receive() does not take
  /// them. `peeked` is the number of bytes before them that the caller has peeked at.
  std::optional<Loan> lent(std::size_t most, std::size_t peeked = 0);
  /// False if the peer lends nothing now.
  bool may_be_lent() const { return incoming_ && incoming_->may_be_lent(); }
  /// The caller has copied the first `count` bytes of the loan. Returns how many of them count. These are
  /// read now unless `peek`.
  std::size_t settle(const Loan& loan, std::size_t count, bool peek);
  /// Asks the peer to copy the lent bytes itself, because their pages are absent and waiting for them could
  /// last for ever.
  void decline(const Loan& loan);
  /// True if send() of this length would advertise its bytes, and would copy at most the last kBehindAdvert
  /// of them.
  bool would_lend(std::size_t bytes, const void* caller) const;
  /// Asks the peer to report by records what it does in lanes, because no thread here sleeps that could be
  /// woken.
  void want_records();
  Result<void> on_lane(std::unique_ptr<LaneReader> lane);
  void on_pulse();

  // -- without copies: chunks.hpp --

  /// Takes all of `bytes`. They must stay unchanged until is_sent(`number`), and `owner` keeps their memory.
  /// If the peer gives no slots to this stream, copies as many bytes as there is room for. Errors: those of
  /// send().
  Answer send_in_place(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       std::uint64_t& number);
  /// True if send_in_place() has returned this `number`. 0 always counts as returned.
  bool has_given(std::uint64_t number) const { return number <= (chunks_ ? chunks_->asked : 0); }
  /// True if the memory of this send, and of every send before it, is no longer used.
  bool is_sent(std::uint64_t number) const;
  /// Takes the next bytes to read if they are in one slot and are at most `most`. Otherwise returns nullopt.
  std::optional<ArrivedChunk> take_chunk(std::size_t most = SIZE_MAX);
  /// Gives back a slot whose bytes were read.
  void give_back(OwnedSlot slot);
  /// The number of payload bytes that were copied on this side.
  std::uint64_t copied() const { return copied_; }
  void count_copied(std::size_t bytes) { copied_ += bytes; }

  bool has_chunk() const { return chunks_ && !chunks_->outgoing.empty(); }
  bool has_chunks() const { return chunks_ != nullptr; }
  /// Returns the next chunk for the channel to write, after all records before it.
  std::optional<ChunkWrite> next_chunk();
  /// Called in the order of next_chunk(): the chunk is in the peer's memory, or will never be.
  void on_chunk_sent(const Chunk& chunk);
  /// Errors of both: protocol_error. on_grant(): this side has not asked, or there are more slots than exist.
  /// on_bulk(): the connection has messages or is not open, or the peer asks again.
  Result<void> on_grant(const Grant& grant);
  Result<void> on_bulk();
  /// The peer has asked for slots and gets these. If there are none, it is told that it gets none.
  void grant(std::deque<OwnedSlot> slots);
  /// The peer has written `bytes` bytes into a granted slot. Errors: protocol_error.
  Result<void> on_chunk(std::uint32_t slot, std::size_t bytes);
  /// Returns the slots that the peer may still write, after the stream has ended.
  std::deque<OwnedSlot> take_granted();
  bool has_heard_end() const { return fin_received_; }

  // -- the beginning --

  /// Replaces `last`, a stream that has failed. Takes over its watcher, its error, and the directions that
  /// were shut down.
  void take_the_place_of(Stream& last);
  /// This side begins to connect. ask() then asks for the connection `id` at the peer of `outlet`.
  void connect();
  void ask(Outlet& outlet, ConnectionId id);
  /// Forgets the outlet. Its process sends nothing to this stream any more. Another process may be asked.
  void forget_outlet() { outlet_ = nullptr; }
  void on_accepted(std::uint64_t limit);
  /// The peer has refused or cannot be reached: ECONNREFUSED, ETIMEDOUT or others.
  void on_refused(int error);
  /// Returns to the state before connect(), after a failed attempt or to give up an attempt.
  void disconnect();
  /// The peer has asked for this connection and waits until it may send.
  void accept(Outlet& outlet, ConnectionId id, std::uint64_t limit);
  /// let_begin() lets the peer send kFirstBytes. let_go_on() gives it the whole window, when the application
  /// has accepted the connection.
  void let_begin() { granted_ = kFirstBytes; }
  void let_go_on();

  // -- records from the peer --

  /// Errors of both: protocol_error (more bytes than granted, bytes after the end, credit that shrinks).
  Result<void> on_data(std::span<const std::byte> bytes);
  Result<void> on_credit(std::uint64_t limit);
  Result<void> on_fin();
  Result<void> on_stop();
  void on_reset() { fail_with(reset_error()); }
  /// The peer is lost, with ECONNRESET, ETIMEDOUT or others.
  void on_lost(int error);

  // -- records to the peer --

  bool wants_to_send() const;
  /// Returns the next record, or nullopt if there is none now. `body` is memory for the record's body, at
  /// least kMostControlBytes - kRecordHeadBytes. The data of the returned record are already in `body`.
  std::optional<Record> next(std::span<std::byte> body);
  /// The receive credit: how many bytes the peer may send, counted from the beginning.
  std::uint64_t limit() const { return granted_; }
  /// True if the connection has ended here. At most a reset has still to be sent (see wants_to_send()).
  bool is_over() const { return is_over_; }

 private:
  /// A stream of messages that is shut down in both directions stays open until one side closes it.
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
  std::size_t gone_ = 0;              // how many of them have gone and were not reported to the call
  struct Chunks {
    std::deque<Chunk> outgoing;  // not written yet
    std::deque<Grant> grants;    // granted by the peer
    std::uint64_t asked = 0, sent = 0;
    std::size_t under_way = 0;
    std::size_t staged = 0;  // the chunks, waiting or in flight, that are copies
    bool must_wait = false;  // a send in place found no room, or no answer yet
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
  std::size_t refused_ = 0;                             // the length of a message that found no room
  std::uint64_t sent_ = 0, limit_ = 0;                  // bytes sent in records, and the receive credit
  std::uint64_t arrived_ = 0, granted_ = kWindowBytes;  // bytes arrived in records, and the granted credit
  int error_ = 0;
  unsigned shut_ = 0;
  State state_ = State::closed;
  // This side has ended its half while the connection was open. An earlier shutdown is not reported to the
  // peer.
  bool ends_ = false;
  bool fin_received_ = false;  // the stream has ended, not aborted
  bool fin_sent_ = false, must_reset_ = false, must_pulse_ = false;
  bool stops_ = false, stop_sent_ = false;  // this side reads no more
  bool is_narrow_ = false;                  // the application has not accepted it yet
  bool is_orphan_ = false;                  // the socket is closed
  bool is_over_ = false, has_been_open_ = false;
};

}  // namespace rdmc::sockets
