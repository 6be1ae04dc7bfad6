// One end of a connection: what was sent and not yet told to the peer, what came and was not yet read, who
// may still send, and why it ended. It answers like Linux's TCP, error by error (net/ipv4/tcp.c), because
// programs were written against that; a stream of messages (see Messages) ends like AF_UNIX's (net/unix).
// Below it is a channel that loses nothing and keeps the order, so there are no sequence numbers on the wire
// and no timers: positions count on both sides, credit bounds what a reader who does not read can be made to
// keep. Pure; whoever calls holds the lock of its sockets.
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

/// What a connection keeps of what is sent: SOCK_STREAM, SOCK_SEQPACKET.
enum class ConnectionKind : std::uint8_t { bytes, messages };

class Stream;

/// Bytes that the peer's call lends, and the lane that stays until they are settled.
struct Loan {
  std::shared_ptr<LaneReader> lane;
  LentBytes bytes;
};

/// Who carries a stream's records to the peer.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// `stream` has something to say: next() is called until there is nothing left. It may be in the middle of
  /// a call, whose bytes have gone already, so nothing can fail here.
  virtual void on_wants_to_send(Stream& stream) noexcept = 0;
  /// What it goes through, for people: "shm+udp", "self".
  virtual const std::string& description() const = 0;
  /// A way past the frames, if there is one: see LanePool.
  virtual std::unique_ptr<ClaimedLane> claim_lane() { return nullptr; }
  /// Memory for a copy that goes to a slot: CopyPool::kBytes.
  virtual std::shared_ptr<std::byte[]> take_copy() { return nullptr; }
  /// What is kept of the peer's beyond windows is taken off it; null: there is no limit.
  virtual std::shared_ptr<Budget> budget() { return nullptr; }
  /// The peer is being told that it may write there, in this order.
  virtual void on_granted(Stream&, const OwnedSlot&) {}
};

/// Who waits for a stream: its socket.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// Something happened that calls or polls may have waited for. `data`: bytes came.
  virtual void on_change(bool data) = 0;
};

class Stream {
 public:
  /// Bytes taken from the application and not yet sent; bytes received and not yet read. Tuned in no way:
  /// two of Linux's default windows.
  static constexpr std::size_t kSendBytes = 256 * 1024, kWindowBytes = 256 * 1024;
  /// What a peer may send before the application has accepted its connection.
  static constexpr std::size_t kFirstBytes = 16 * 1024;

  /// As TCP's CLOSE, SYN_SENT, and all states in which the connection is there.
  enum class State : std::uint8_t { closed, connecting, open };
  static constexpr unsigned kShutRead = 1, kShutWrite = 2;
  /// A connection is worth a lane when it has sent so many bytes, or has sent so often.
  static constexpr std::uint64_t kBytesBeforeLane = 4 * 1024;
  static constexpr unsigned kSendsBeforeLane = 4;
  /// Of a call that waits, what is left is advertised if it is so much, all but what keeps the reader busy
  /// until the next call.
  static constexpr std::size_t kLeastAdvertised = 128 * 1024, kBehindAdvert = 64 * 1024;
  /// And worth slots of the peer's when it has sent so many, without a lane; sends of so many bytes go there.
  static constexpr std::uint64_t kBytesBeforeSlots = 512 * 1024;
  static constexpr std::size_t kLeastInSlot = 64 * 1024;
  /// So many pieces of what is copied there are under way at most.
  static constexpr std::size_t kMostStaged = 6;
  /// Of the bytes that send() is given, it copies no more than the first so many; see also would_lend().
  static constexpr std::size_t kMostCopied = std::max({kSendBytes, LanePool::kRingBytes, CopyPool::kBytes});

  explicit Stream(ConnectionKind kind = ConnectionKind::bytes) : kind_(kind) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  ConnectionKind kind() const { return kind_; }
  State state() const { return state_; }
  ConnectionId id() const { return id_; }
  /// Not null while the stream is open.
  Outlet* outlet() const { return outlet_; }
  /// Null: nobody, any more.
  void watch(Watcher* watcher) { watcher_ = watcher; }

  // -- the application's calls; none blocks --

  /// Takes as much as there is room for. Errors: EAGAIN, EPIPE, or what ended the connection.
  /// `caller`, not null: names a call that waits and tries again, with what is left of `bytes`, which stay
  /// as they are, so that a peer may take them from there; its last word is take_back().
  Answer send(std::span<const std::byte> bytes, const void* caller = nullptr);
  /// Where a send of `bytes` bytes is a long copy: its beginning's place, which the caller fills without the
  /// lock, for end_copy(), whose answer is send's.
  std::optional<Chunk> begin_copy(std::size_t bytes);
  Answer end_copy(Chunk copy);
  /// The call lends nothing any more. How many of the bytes that are left have gone after all; nothing: it
  /// had lent none.
  std::optional<std::size_t> take_back(const void* caller);
  /// Takes all of both, or nothing; what is longer than the room in all, when nothing else waits.
  Answer send_whole(std::span<const std::byte> head, std::span<const std::byte> bytes);
  /// The same of a message that is longer than that, and is copied already.
  Answer send_whole(ByteQueue message);
  /// Whether it takes a message of so many bytes. Errors: those of send.
  Answer check_send_whole(std::size_t bytes);
  /// Errors: EAGAIN, ENOTCONN, or what ended the connection. 0: the peer's stream is at its end.
  Answer receive(std::span<std::byte> out, bool peek = false);
  /// Bytes that have come and were not read.
  std::size_t available() const { return received_.size(); }
  /// About as many bytes as receive() would copy now. A peer that writes in a lane adds to them.
  std::size_t unread() const;
  /// kShutRead, kShutWrite or both. Errors: ENOTCONN - and yet it counts, as Linux has it.
  Answer shutdown(unsigned how);
  /// The last call: the socket is gone. What was sent goes out still, unless the application leaves something
  /// unread or wants to `abort`: then the peer's end is reset.
  void close(bool abort);
  /// The peer says what makes no sense: its end is reset, and ours fails with `error`.
  void abandon(int error);
  /// SO_ERROR: the error that no call has reported yet, once.
  int take_error();
  /// As poll(2) tells it: POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR.
  short events() const;
  bool has_been_open() const { return has_been_open_; }
  /// Everything sent, and the end, if that was said, was handed to the outlet.
  bool is_flushed() const { return send_.empty() && !has_chunk() && (fin_sent_ || !ends_); }
  /// kShutRead, kShutWrite: what was shut down, here or by the peer.
  unsigned shut() const { return shut_; }

  // -- lanes: memory that the application's own calls share with the peer's --

  /// Where what the peer sends arrives, where what we send goes; null: in frames.
  const LaneReader* incoming() const { return incoming_.get(); }
  const ClaimedLane* outgoing() const { return outgoing_.get(); }
  /// What a waiting call of the peer's lends to be read next, at most `most` bytes: the caller copies them
  /// without the lock, and then settles the loan or declines it. receive() leaves them where they are.
  /// `peeked`: so many bytes before them have been peeked at.
  std::optional<Loan> lent(std::size_t most, std::size_t peeked = 0);
  /// False: there is nothing to be lent now.
  bool may_be_lent() const { return incoming_ && incoming_->may_be_lent(); }
  /// `count` bytes were copied, from the front. How many of them count, and are read unless `peek`.
  std::size_t settle(const Loan& loan, std::size_t count, bool peek);
  /// The peer is to copy them itself: they are not present, and who waits for them may wait for ever.
  void decline(const Loan& loan);
  /// Whether send() of so many bytes would advertise them, and copy no more than the last kBehindAdvert.
  bool would_lend(std::size_t bytes, const void* caller) const;
  /// Nobody sleeps here who could be woken: the peer is to say by records what it does in lanes.
  void want_records();
  Result<void> on_lane(std::unique_ptr<LaneReader> lane);
  void on_pulse();

  // -- without copies: chunks.hpp --

  /// Takes all of `bytes`, memory that `owner` keeps and nobody changes until is_sent(`number`); or, if the
  /// peer has no slots for us, a copy of as much as there is room for. Errors: those of send.
  Answer send_in_place(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       std::uint64_t& number);
  /// Whether send_in_place has given `number`; 0, before it gave any, it always has.
  bool has_given(std::uint64_t number) const { return number <= (chunks_ ? chunks_->asked : 0); }
  /// So has every send before it.
  bool is_sent(std::uint64_t number) const;
  /// What is to be read next, if that lies in one piece of at most `most` bytes.
  std::optional<ArrivedChunk> take_chunk(std::size_t most = SIZE_MAX);
  /// A slot whose bytes have been read.
  void give_back(OwnedSlot slot);
  /// Payload bytes that were copied on this side.
  std::uint64_t copied() const { return copied_; }
  void count_copied(std::size_t bytes) { copied_ += bytes; }

  bool has_chunk() const { return chunks_ && !chunks_->outgoing.empty(); }
  bool has_chunks() const { return chunks_ != nullptr; }
  /// The next piece to be written by the channel, behind all records before it.
  std::optional<ChunkWrite> next_chunk();
  /// In the order of next_chunk(): the piece is in the peer's memory, or will never be.
  void on_chunk_sent(const Chunk& chunk);
  /// Errors of both: protocol_error (nobody has asked, more than there are; of messages, or again).
  Result<void> on_grant(const Grant& grant);
  Result<void> on_bulk();
  /// The peer, which has asked, may write into these; none: it is told that it gets none.
  void grant(std::deque<OwnedSlot> slots);
  /// The peer has written `bytes` bytes into a slot that was granted. Errors: protocol_error.
  Result<void> on_chunk(std::uint32_t slot, std::size_t bytes);
  /// Those that the peer knows of, when the stream is over.
  std::deque<OwnedSlot> take_granted();
  bool has_heard_end() const { return fin_received_; }

  // -- how it begins --

  /// A new one in the place of `last`, which has failed: with what a socket keeps over that, and who watches.
  void take_the_place_of(Stream& last);
  /// We ask for the connection `id` at `outlet`'s peer …
  void connect();
  void ask(Outlet& outlet, ConnectionId id);
  /// Whoever was asked says nothing to it any more; another may be.
  void forget_outlet() { outlet_ = nullptr; }
  void on_accepted(std::uint64_t limit);
  /// … which refuses, or cannot be reached: ECONNREFUSED, ETIMEDOUT, …
  void on_refused(int error);
  /// As if nothing had been tried; after an attempt that failed, or to give one up.
  void disconnect();
  /// The peer asks us, and waits …
  void accept(Outlet& outlet, ConnectionId id, std::uint64_t limit);
  /// … until it is told that it may begin: kFirstBytes; and the rest, when the application takes it.
  void let_begin() { granted_ = kFirstBytes; }
  void let_go_on();

  // -- what the peer says --

  /// Errors of both: protocol_error (beyond what was granted, after the end, credit that shrinks).
  Result<void> on_data(std::span<const std::byte> bytes);
  Result<void> on_credit(std::uint64_t limit);
  Result<void> on_fin();
  Result<void> on_stop();
  void on_reset() { fail_with(reset_error()); }
  /// The peer is lost: ECONNRESET, ETIMEDOUT, …
  void on_lost(int error);

  // -- what we say --

  bool wants_to_send() const;
  /// The next record; `body` has room for its body, at least kMostControlBytes - kRecordHeadBytes, and holds
  /// its data already. Nothing: no more now.
  std::optional<Record> next(std::span<std::byte> body);
  /// The bytes that our peer may send in all.
  std::uint64_t limit() const { return granted_; }
  /// Both ends have said their last word: neither sends anything for it any more.
  bool is_over() const { return is_over_; }

 private:
  /// Of messages: half-closed on both sides it stays, until one side closes.
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
  std::shared_ptr<LaneReader> incoming_;  // behind what `received_` holds
  unsigned sends_ = 0;
  const void* advertiser_ = nullptr;  // the call whose bytes the last advert was of
  std::size_t gone_ = 0;              // of those, not yet told it
  struct Chunks {
    std::deque<Chunk> outgoing;  // not yet written
    std::deque<Grant> grants;    // the peer's
    std::uint64_t asked = 0, sent = 0;
    std::size_t under_way = 0;
    std::size_t staged = 0;  // of `outgoing` and under way, those that are copies
    bool must_wait = false;  // a send in place found no room, or nobody to answer yet
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
  std::size_t refused_ = 0;                             // of a message that there was no room for: its bytes
  std::uint64_t sent_ = 0, limit_ = 0;                  // ours, and as far as the peer lets us
  std::uint64_t arrived_ = 0, granted_ = kWindowBytes;  // the peer's, and as far as we let it
  int error_ = 0;
  unsigned shut_ = 0;
  State state_ = State::closed;
  bool ends_ = false;  // we have said so while the connection was there; a shutdown before it says nothing
  bool fin_received_ = false;  // the stream's end, not an abort
  bool fin_sent_ = false, must_reset_ = false, must_pulse_ = false;
  bool stops_ = false, stop_sent_ = false;  // we read no more
  bool is_narrow_ = false;                  // the application has not accepted it yet
  bool is_orphan_ = false;                  // the socket is gone
  bool is_over_ = false, has_been_open_ = false;
};

}  // namespace rdmc::sockets
