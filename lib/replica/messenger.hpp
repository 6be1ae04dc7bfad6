// The messages of one process of a rank program: its requests, the matching of messages with receives, and
// the transfer of the bytes. A short message is sent at once, together with its envelope (eager). A longer
// one is announced first. When a receive has matched the announcement, the receiver grants the memory of the
// receive, and the sender writes the bytes directly into it. So a long message is not copied in between.
//
// If ranks have replicas, a ReplicationProtocol says to which replicas a message goes. Messages then carry
// sequence numbers, so a receiver gets each message once, whoever sends it. A process keeps the messages that
// another replica of its rank sends, until their receivers have acknowledged them. When that replica dies,
// the process sends what is missing (SDR-MPI, Algorithm 1). messenger_replicas.cpp has this part. A new
// process can take the place of a dead one. It is a copy of another replica of its rank
// (messenger_recovery.cpp).
//
// The memory of a send or a receive belongs to the program until the request is complete. A core without I/O
// and without a clock; the thread that runs the engine uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "lib/replica/carrier.hpp"
#include "lib/replica/channels.hpp"
#include "lib/replica/match_queue.hpp"
#include "lib/replica/records.hpp"
#include "lib/replica/replication.hpp"
#include "lib/replica/send_comparison.hpp"
#include "lib/replica/slab.hpp"
#include "lib/replica/verification.hpp"

namespace rdmc::replica {

/// A request of the program. A number is used again only after 2^32 other requests.
enum class RequestId : std::uint64_t {};

/// The result of a completed request.
struct Delivery {
  std::uint32_t source = 0;  ///< the sender's rank in the communicator
  std::int32_t tag = 0;
  std::size_t bytes = 0;
  friend bool operator==(const Delivery&, const Delivery&) = default;
};

class Messenger {
 public:
  static constexpr std::int32_t kAny = MatchQueue::kAny;
  /// The largest length of an eager message.
  static constexpr std::size_t kMostEagerBytes = 8 * 1024;
  /// A process sends at most this many bytes of eager messages that the receiver's program has not received
  /// yet. Further messages are announced, whatever their length. So the memory that a receiver needs for
  /// messages that it does not expect is bounded for each sender.
  static constexpr std::size_t kEagerWindow = 1 << 20;
  /// An eager message counts as so many more bytes of the window, for the memory that describes it.
  static constexpr std::size_t kEagerOverhead = 64;
  /// A long message is written in pieces of at most this length, so that other messages need not wait long.
  static constexpr std::size_t kPieceBytes = 4 << 20;
  /// The largest number of announced messages for which this process grants memory to one peer at a time.
  static constexpr std::uint32_t kMostGrants = 64;
  /// The largest number of messages that are announced to one peer and that it has not answered.
  static constexpr std::uint32_t kMostAnnounced = 4096;
  /// The largest number of communicators whose messages have arrived before the communicator was made here.
  static constexpr std::size_t kMostEarlyContexts = 1024;

  /// The largest number of channels in which other replicas have sent messages, and this process has not.
  /// Also the largest number of questions, for each rank of the run, that this process cannot answer yet. A
  /// sender has at most kEagerWindow / kEagerOverhead messages on their way to one process.
  static constexpr std::size_t kMostEarlyChannels = 65536;
  /// The largest number of fences of recoveries that this process has not learned of.
  static constexpr std::size_t kMostEarlyFences = Layout::kMostProcesses;
  /// A process keeps copies of at most this many bytes of messages to one rank, until they are acknowledged.
  /// A message that is not copied is complete only when it has been acknowledged.
  static constexpr std::size_t kMostKept = kEagerWindow;

  struct Counters {
    std::uint64_t messages = 0;    ///< messages sent to other processes
    std::uint64_t unexpected = 0;  ///< messages that arrived before a receive for them was posted
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    std::uint64_t acknowledgements = 0;  ///< acknowledgements sent; one may stand for many messages
    std::uint64_t repeated = 0;          ///< messages that had arrived before from another replica
    std::uint64_t sent_for_dead = 0;     ///< messages sent in place of a dead replica of this rank
    std::uint64_t questions = 0;         ///< questions to other replicas of this rank
    std::uint64_t reports = 0;           ///< reports of sent messages to other replicas of this rank
  };

  struct Options {
    /// If true, a send is complete only when all replicas of the receiver have the message (SDR-MPI,
    /// Algorithm 1, lines 12 to 14). Otherwise a short message is copied, and is complete at once.
    bool is_strict = false;
    /// This says which messages the replicas of a rank compare by a digest. Their lengths and numbers are
    /// always compared (send_comparison.hpp).
    Verification verification{};
  };

  Messenger(Carrier& carrier, std::unique_ptr<ReplicationProtocol> protocol, Options options);
  Messenger(Carrier& carrier, std::unique_ptr<ReplicationProtocol> protocol)
      : Messenger(carrier, std::move(protocol), Options()) {}
  Messenger& operator=(const Messenger&) = delete;

  /// Makes a communicator. `members[i]` is the world's rank of its rank i. This process has the rank `rank`.
  /// The id must be greater than those of all communicators that were made before.
  void add_context(ContextId context, std::vector<Rank> members, std::uint32_t rank);
  /// Ends a communicator. Messages that arrive for it from now on are dropped. Receives that have not matched
  /// a message fail with cancelled.
  void remove_context(ContextId context);

  // -- The program. The caller has checked that the context exists, and that ranks and tags are possible. --

  /// Begins to send. `bytes` must not change until the request is complete.
  RequestId send(ContextId context, std::span<const std::byte> bytes, std::uint32_t to, std::int32_t tag);
  /// Begins to receive. `from` and `tag` may be kAny.
  RequestId receive(ContextId context, std::span<std::byte> bytes, std::int32_t from, std::int32_t tag);
  /// True if take() returns a result.
  bool is_complete(RequestId request) const;
  /// Returns the index of the request that the program should learn of first, if one of them is complete. At
  /// a rank with replicas, receives are complete in the order in which their messages have arrived: a message
  /// must not come before another one that has caused it.
  std::optional<std::size_t> choose(std::span<const RequestId> requests) const;
  /// Returns the result of a complete request, and forgets the request. `is_choice` is true if the program
  /// has waited for one of several requests, or has only looked whether the request is complete. Errors:
  /// invalid_argument if the message was longer than the receive, or if there is no such request;
  /// peer_failed; resource_limit.
  Result<Delivery> take(RequestId request, bool is_choice = false);
  /// Gives up a request that is not complete, and forgets it. Its memory is used no more, unless a process is
  /// returned: with that process the transfer has begun. The caller must then report this process by
  /// on_failed(), and call cancel() again.
  std::optional<ProcessId> cancel(RequestId request);
  /// Returns the message that a receive with these arguments would get now.
  std::optional<Delivery> probe(ContextId context, std::int32_t from, std::int32_t tag);
  /// Returns why no message can come from `from` any more. For kAny, all other members must have failed.
  std::optional<Error> failure_of(ContextId context, std::int32_t from) const;

  // -- The driver. --

  /// Handles the records of a frame. Errors: protocol_error; `from` must then be treated as failed.
  Result<void> on_records(ProcessId from, std::span<const std::byte> records);
  /// `bytes` bytes have been written to memory that was granted for an announced message. Errors:
  /// protocol_error.
  Result<void> on_write_arrived(ProcessId from, std::uint32_t arrival, std::size_t bytes);
  /// A write has completed.
  void on_written(ProcessId to, std::uint32_t transfer);
  /// There may be space for records again, or can_write() may be true again. Must also be called when the
  /// processes have been connected.
  void on_room(ProcessId to);
  /// The process is dead, or has broken the protocol. If its rank has no other replica, all that depends on
  /// it fails with `cause`.
  void on_failed(ProcessId process, const Error& cause);
  /// Acknowledgements, and reports of sent messages, are deferred, so that one record can stand for many
  /// messages. They are sent at once when many are due, or when a sender waits for an acknowledgement. The
  /// driver must call send_deferred() a short time after has_deferred() has become true.
  bool has_deferred() const;
  void send_deferred();

  // -- The comparison of what the replicas of this rank send. --

  /// The program has ended its part at this process, and sends nothing more.
  void end_sends();
  /// True if the program has ended at all living replicas of this rank, and what they have sent has been
  /// compared.
  bool are_sends_compared() const { return !comparison_.is_active() || comparison_.is_over(); }
  bool has_differences() const { return comparison_.has_differences(); }
  std::vector<SendDifference> take_differences() { return comparison_.take_differences(); }
  /// If true, the driver must call judge_waiting() when sends_changed() has returned the same number for a
  /// long time.
  bool are_sends_uncompared() const { return comparison_.has_uncompared(); }
  std::uint64_t sends_changed() const { return comparison_.changes(); }
  void judge_waiting() { comparison_.judge_waiting(); }
  /// The number of messages that were not compared, because a replica was too far ahead.
  std::uint64_t uncompared() const { return comparison_.uncompared(); }

  /// The number of the oldest message that holds back messages of this process (see messenger_order.cpp), or
  /// nullopt if there is none.
  std::optional<std::uint64_t> oldest_hold() const;
  /// Replicas that have received messages in different orders may wait for each other. This function asks
  /// the other processes whether the oldest hold is part of such a circle. If it is, the hold ends. The
  /// driver must call it from time to time while the same hold lasts.
  void chase_hold();
  /// Ends the oldest hold, though another replica may need it. The driver must call this function if the same
  /// hold has lasted for longer than a process that gives no sign of life counts as living.
  void release_hold();

  // -- Recovery: `parent` forks a process that takes the place of the dead process `process`. All processes
  // learn of it in the same order as of deaths. on_failed() for `process` ends a recovery without success.

  /// A recovery begins. From now on, `process` counts as living, and messages for it wait for its link. At
  /// `parent`, no message leaves until the fork. `number` increases from one recovery to the next.
  void on_recovering(ProcessId process, ProcessId parent, std::uint64_t number);
  /// At the parent: true if the process may be forked now, so that the copy lacks no message.
  bool may_fork(ProcessId process) const;
  /// At the parent: the process was forked.
  void on_forked(ProcessId process);
  /// In the new process, whose memory is a copy of the parent's: this Messenger is that of `process` from now
  /// on. Its links are new, and none of them has space before on_room() is called.
  void become(ProcessId process);

  /// True if all messages whose sends are complete have arrived, and no acknowledgement is due.
  bool is_settled() const;
  const ReplicationProtocol& protocol() const { return *protocol_; }
  const Counters& counters() const { return counters_; }

 private:
  /// Does in a simulator, whose processes share one memory, what fork() does.
  friend struct MessengerFork;
  Messenger(const Messenger&) = default;

  struct Context {
    std::vector<Rank> members;  ///< empty while the communicator has not been made here
    std::uint32_t rank = 0;
    MatchQueue queue;
  };
  enum class Kind : std::uint8_t { send, receive };
  struct Request {
    Kind kind = Kind::send;
    bool is_complete = false;
    std::uint32_t generation = 0;
    ContextId context{};
    std::int32_t from = kAny, tag = kAny;
    std::span<std::byte> into{};  ///< of a receive
    Delivery delivery{};
    std::optional<Error> error{};
    /// Set if a receive has matched a message. The other replicas have to see this message if the program
    /// learns by it which of several messages came first.
    std::optional<Sight> sight{};
    std::uint64_t order = 0;  ///< of a receive that has matched: Arrival::order
  };
  /// A message of the program that some replica of the receiver may not have.
  struct Outgoing {
    Rank to{};
    Envelope envelope;
    std::span<const std::byte> bytes;        ///< the program's memory, or `copy`
    std::optional<std::uint32_t> request{};  ///< the request, if it is not complete
    std::vector<std::byte> copy{};
    bool is_copied = false;
    ReplicaSet awaited = 0;       ///< the replicas of `to` that have to acknowledge the message
    std::uint32_t transfers = 0;  ///< the number of transfers of this message
    std::uint64_t number = 0;     ///< increases in the order of sending
    bool is_kept = false;         ///< it is in the list of its channel
    std::uint32_t next_kept = kNoIndex;
  };
  /// The way of an Outgoing message to one process.
  struct Transfer {
    ProcessId to{};
    std::uint32_t outgoing = 0;
    bool is_announced = false;
    std::optional<Grant> grant{};
    std::uint64_t posted = 0;     ///< The bytes whose writes were posted.
    std::uint32_t in_flight = 0;  ///< The number of writes in flight.
  };
  /// A message that another replica has announced before. This process has announced it too, or has sent its
  /// bytes at once.
  struct Alternate {
    ProcessId from{};
    std::optional<std::uint32_t> transfer{};
    std::vector<std::byte> bytes{};  ///< if `transfer` is empty
  };
  /// A message that arrives and is not delivered.
  struct Arrival {
    ProcessId from{};
    Envelope envelope;
    std::uint64_t bytes = 0;
    std::uint64_t order = 0;                  ///< increases in the order of arrival
    std::vector<std::byte> stored{};          ///< the bytes of an eager message without a receive
    std::optional<std::uint32_t> transfer{};  ///< the sender's number, if the message was announced
    std::optional<std::uint32_t> request{};   ///< the receive that has matched
    std::optional<std::uint64_t> exposed{};
    std::uint64_t missing = 0;            ///< the bytes that were granted and have not arrived
    bool owes_credit = true;              ///< `from` waits for the report that the message was consumed
    bool lacks_sender = false;            ///< `from` is dead, and another replica has to send the message
    std::uint32_t channel = kNoIndex;     ///< of an announced message, if the sender's rank has replicas
    std::vector<Alternate> alternates{};  ///< who else can send the message
  };
  struct Peer {
    std::deque<std::uint32_t> unsent;     ///< transfers that wait for space in a frame, in order
    std::deque<std::uint32_t> writing;    ///< transfers with pieces that are not posted yet
    std::deque<std::uint32_t> ungranted;  ///< arrivals that have matched and wait for a grant
    std::deque<Grant> grants;             ///< grants that wait for space in a frame
    std::uint32_t granted = 0;            ///< arrivals that are being written
    std::uint64_t eager_outstanding = 0;  ///< counts against kEagerWindow
    std::uint32_t announced = 0;          ///< announcements that the peer has not answered
    std::uint32_t unanswered = 0;         ///< announcements of the peer that were not answered here
    std::uint64_t unreported = 0;         ///< eager bytes that have arrived and are not reported as consumed
    std::uint64_t consumed = 0;           ///< what this process has consumed and not reported yet
    std::vector<std::uint32_t> due;       ///< channels with an acknowledgement that is due to this peer
    std::size_t due_bytes = 0;            ///< the length of the messages that they acknowledge
    bool is_due_now = false;              ///< the acknowledgements must be sent as soon as there is space
    std::deque<Record> notices;           ///< questions and sightings that wait for space
    bool is_reporting = false;            ///< reports must be sent as soon as there is space
    bool is_held = false;                 ///< it is in `held_`
    std::optional<Error> failure;
  };

  Peer& peer(ProcessId process) { return peers_[static_cast<std::uint32_t>(process)]; }
  RequestId id_of(std::uint32_t index) const;
  std::optional<std::uint32_t> index_of(RequestId id) const;
  std::uint32_t new_request(Request request);
  void complete(std::uint32_t request, const Delivery& delivery);
  void fail_request(std::uint32_t request, Error error);

  Context* context_of(ContextId id);
  bool has_ended(ContextId id) { return static_cast<std::uint32_t>(id) < made_end_ && !context_of(id); }
  Rank rank_of(ProcessId process) const { return protocol_->replica(process).rank; }
  const std::optional<Error>& failure_of_rank(Rank rank) const { return rank_failures_[value_of(rank)]; }
  bool send_now(Peer& peer, ProcessId to, const Envelope& envelope, std::span<const std::byte> bytes);
  bool send_first(Peer& peer);
  void send_to_self(std::uint32_t request, const Envelope& envelope, std::span<const std::byte> bytes);
  bool may_be_eager(const Peer& peer, std::size_t bytes) const;
  void add_transfer(std::uint32_t outgoing, ProcessId to);
  void finish_transfer(std::uint32_t transfer);
  void keep_for_self(std::uint32_t transfer);

  // Messages whose receiver or sender has replicas.
  ReplicaSet number_message(Envelope& envelope, Rank to);
  void keep(std::uint32_t outgoing);
  void copy(Outgoing& message);
  void settle(std::uint32_t outgoing);
  void release_kept(std::uint32_t channel);
  void fail_outgoing(const ReplicaId& dead, const std::optional<Error>& cause);
  void take_over();
  std::uint32_t channel_from(ProcessId from, const Envelope& envelope);
  Result<bool> note_number(std::uint32_t channel, const Envelope& envelope, bool has_context);
  void acknowledge(std::uint32_t channel, ProcessId from, std::size_t bytes, bool is_urgent);
  void acknowledge_to(ReplicaSet replicas, Rank source, std::uint32_t channel, std::size_t bytes,
                      bool is_urgent);
  bool send_due(ProcessId to);
  std::optional<std::uint32_t> open_arrival(std::uint32_t channel, std::uint32_t sequence) const;
  Result<void> repeat(std::uint32_t channel, ProcessId from, const Eager& eager);
  Result<void> repeat(std::uint32_t channel, ProcessId from, const Announcement& announcement);
  void give_bytes(std::uint32_t arrival, ProcessId from, std::span<const std::byte> bytes);
  void adopt(std::uint32_t arrival, const Alternate& other);
  void drop(const Alternate& other);
  void drop_arrivals(ProcessId dead, bool is_last, const Error& cause);
  void close_channels(ContextId context);

  // Recovery.
  struct Recovery {
    ProcessId process{};
    std::uint64_t number = 0;
    std::vector<ProcessId> missing{};  ///< the processes that have not answered the fence
  };
  bool is_frozen() const { return !recoveries_.empty(); }
  void end_recovery(ProcessId process);
  void note_failure_in_recoveries(ProcessId dead);
  void supply(Rank rank, std::uint32_t replica);
  void hand_over();
  void await_instead(std::uint32_t transfer);
  OutgoingChannel& channel_of(const Outgoing& message);
  void link_kept();
  void forget_link_of(std::uint32_t arrival);
  ReplicaSet acknowledged_at(Rank source) const;
  void acknowledge_all(Rank source);
  Result<void> handle(ProcessId from, const Fence& fence);

  // The order of messages from any source.
  bool has_numbers(Rank other) const { return is_replicated_ || protocol_->layout().degree(other) > 1; }
  std::optional<Sight> sight_of(const Envelope& envelope, ProcessId from) const;
  void hold_until_seen(const Sight& sight);
  bool is_held(std::uint64_t number) const { return !holds_.empty() && number > holds_.front().after; }
  bool is_seen(const Sight& sight);
  void end_holds();
  void note(ProcessId to, const Record& notice);
  void answer_waiting(std::uint32_t channel);
  Result<void> handle(ProcessId from, const Question& question);
  Result<void> handle(ProcessId from, const Sighting& sighting);
  bool do_worlds_cross() const;
  void pass_chase(std::uint32_t origin, std::uint64_t number);
  bool holds_back(ProcessId to, const Sight& sight);
  Result<void> handle(ProcessId from, const Chase& chase);

  // Reports to the other replicas of this rank.
  void note_sent(Rank to, const Envelope& envelope, std::span<const std::byte> bytes);
  void begin_reports();
  bool send_reports(ProcessId to);
  Result<void> handle(ProcessId from, const SendReport& report);
  Result<void> handle(ProcessId from, const SendsEnded& ended);
  void close(std::uint32_t arrival);
  void remove_arrival(std::uint32_t arrival);
  void pump(ProcessId to);
  void post_pieces(ProcessId to);

  Result<Context*> arrival_context(const Envelope& envelope, ProcessId from);
  Result<void> handle(ProcessId from, const Eager& eager);
  Result<void> handle(ProcessId from, const Announcement& announcement);
  Result<void> handle(ProcessId from, const Grant& grant);
  Result<void> handle(ProcessId from, const Consumed& consumed);
  Result<void> handle(ProcessId from, const Acknowledgement& acknowledgement);
  void note_consumed(ProcessId from, std::size_t bytes);
  void fill_receive(std::uint32_t request, const Envelope& envelope, std::span<const std::byte> bytes);
  void complete_receive(std::uint32_t request, const Envelope& envelope, std::uint64_t bytes);
  void deliver(std::uint32_t arrival, std::uint32_t request);
  void refuse(ProcessId from, std::uint32_t transfer);
  void grant_next(ProcessId from);
  bool grant(std::uint32_t arrival);

  Carrier* carrier_;
  std::shared_ptr<ReplicationProtocol> protocol_;
  const Options options_;
  ProcessId own_;
  const Rank own_rank_;
  const bool is_replicated_;  ///< this rank has replicas
  std::vector<Peer> peers_;
  std::vector<std::optional<Error>> rank_failures_;  ///< set when no replica of the rank lives
  std::map<ContextId, Context> contexts_;
  std::uint32_t made_end_ = 0;  ///< The ids of all communicators that were made here are below this one.
  std::size_t early_contexts_ = 0;
  ContextId cached_id_{};
  Context* cached_ = nullptr;  ///< The communicator that was used last.
  Slab<Request> requests_;
  std::uint32_t generation_ = 0;
  Slab<Outgoing> outgoing_;
  std::uint64_t sends_ = 0;
  Slab<Transfer> transfers_;
  std::uint32_t add_arrival(Arrival arrival);
  Slab<Arrival> arrivals_;
  std::uint64_t arrived_ = 0;
  ChannelTable<OutgoingChannel> to_;
  ChannelTable<IncomingChannel> from_;
  std::size_t early_channels_ = 0;
  std::vector<std::size_t> kept_bytes_;   ///< by rank; counts against kMostKept
  std::vector<ProcessId> acknowledging_;  ///< the peers to which acknowledgements are due
  /// A message that other replicas of this rank have to see before this process sends anything more.
  struct Hold {
    Sight sight;
    std::uint64_t after = 0;  ///< messages with larger numbers are held back
  };
  std::deque<Hold> holds_;  ///< in the order in which they have begun; only the first one counts
  std::uint64_t holds_ended_ = 0;
  std::uint64_t chase_ = 0;            ///< the number of the last chase of this process
  std::uint64_t chased_hold_ = 0;      ///< of which hold it was: `holds_ended_` at that time
  std::vector<std::uint64_t> chases_;  ///< by origin: the last chase that this process has passed on
  std::vector<ProcessId> held_;        ///< the peers whose messages are held back
  std::size_t waiting_ = 0;            ///< the number of questions that cannot be answered yet
  std::vector<Recovery> recoveries_;   ///< for which this process must be forked
  std::uint64_t last_recovery_ = 0;    ///< the number of the last recovery that this process has learned of
  struct EarlyFence {
    ProcessId from{};
    std::uint64_t number = 0;
  };
  std::vector<EarlyFence> early_fences_;  ///< fences of recoveries that this process has not learned of
  SendComparison comparison_;
  Counters counters_;
};

}  // namespace rdmc::replica
