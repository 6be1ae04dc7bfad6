// Groups of processes among which one, the root, sends messages to all others: RDMC's interface (Behrens et
// al., DSN 2018, Figure 1) with today's C++. A Node is this process's part: its connections to other nodes,
// shared by all groups, and the engine that moves the bytes - a thread of its own, or the application's calls
// of poll().
//
// Any thread may call anything. Upcalls come on the fabric thread, one at a time for the whole node; they
// may call back in, and must not block. Memory that is handed over - to send, by incoming, by
// post_receive_buffer - stays the application's, which neither writes nor frees it until reusable() has named
// its message, or the group is gone (destroyed() was called, or failed() and then destroyed()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rdmc/context.hpp>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/relay/algorithm.hpp"

namespace rdmc {

/// A process, as all others call it; the application chooses.
enum class NodeId : std::uint32_t {};
/// A group, as all its members call it.
enum class GroupNumber : std::uint64_t {};

struct NodeOptions {
  NodeId id{};
  /// Where its data path listens; the address of the network to use. Port 0: RoCE's
  /// 4791, the only one that RDMA NICs send to, where it is free, else any.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  /// "auto", "udp", "dpdk", "verbs", …
  std::string fabric = "auto";
  /// Where the fabric needs one named (dpdk), in its own words: rdmc_bcast --device's.
  std::string device = {};
  /// With whom the node shares its thread and connections; null: with all that this process has without a
  /// Context of its own.
  std::shared_ptr<Context> context = nullptr;
  /// False: the thread that creates the node calls poll(), and destroys the node; nothing is shared. Other
  /// threads may send, post_receive_buffer, release and destroy_group; disconnect() follows in the next turn,
  /// if the queue of the engine has room. To what would have to wait for a turn they get invalid_argument,
  /// and false from is_connected().
  bool own_thread = true;
  /// Never sleep while waiting: for a dedicated core.
  bool busy_poll = false;
  /// How long others may wait for a group that this node has not created; then the group fails at those that
  /// have sent something in it (timed_out), and cannot be created here in that epoch. 0: for ever; what they
  /// have sent is kept, up to 8 MB, and held_up() names this node to the root.
  Duration creation_timeout{};
  /// AES-256-GCM for all that leaves this host, at every node alike. Offers carry the keys then: they must
  /// travel in secret.
  bool encrypt = false;
};

/// For GroupOptions::algorithm: the root chooses for each message, learning from how long they take.
inline constexpr std::nullopt_t kAutomatic = std::nullopt;
/// For GroupOptions::block_bytes: what 0 means where it is not chosen for each message.
inline constexpr std::uint32_t kUsualBlockBytes = 256 * 1024;

struct GroupOptions {
  /// Of this use of the number; higher than in any earlier use of it by one of the members.
  std::uint64_t epoch = 0;
  /// Messages travel in blocks of it; the same at every member. 0: chosen for each message with its
  /// algorithm, else - and in a group that `can_continue` - 256 KB.
  std::uint32_t block_bytes = 0;
  /// Who passes blocks on to whom; the same at every member. kAutomatic: what the root announces. To
  /// compare algorithms the root sometimes sends one message alone, and the messages behind it wait until all
  /// members have it: some 6 of the first 50 messages of a length, and a few more after each 256. So a queue
  /// can be much slower than by a plan that is named. A successor group begins anew. A host's
  /// members take blocks once for all only by host_pipeline: chosen, or named where all are connected.
  /// By kAutomatic and by circulant a message that is sent alone takes a round trip more than by the others.
  std::optional<relay::Algorithm> algorithm = relay::Algorithm::binomial_pipeline;
  /// The rack of each member, in the order of `members`: any numbers. Algorithms that know racks send little
  /// between them. The same at every member; empty: all are in one. But kAutomatic and the host pipeline take
  /// the hosts that members share, of which all connected nodes have told each other, for racks then.
  std::vector<std::uint32_t> racks;
  /// Shorter messages are packed several into one packet; the same at every member.
  std::uint32_t small_bytes = 4096;
  /// How long a message may wait for memory; then this member fails, and with it the group. 0: for ever.
  /// Meanwhile the root's messages queue until send() says would_block, and held_up() names this member to
  /// the root.
  Duration receive_timeout{};
  /// Everybody keeps every message - reusable() waits for stable() -, so that after a failure the survivors
  /// can continue_group(). The same at every member.
  bool can_continue = false;
  /// The group exists, and this member comes in while the others continue_group() in this very epoch: it gets
  /// the messages from continued() on. Only with can_continue.
  bool joins = false;
  /// Receivers on the root's host look at large messages where they lie, without any copy: where the root has
  /// allocate()d their memory and all members can see it they come by mapped(), all others as ever. The same
  /// at every member; not with can_continue.
  bool read_only = false;
};

/// Memory that nodes on the same host can be shown. It may outlive the node that allocated it.
struct SharedMemory {
  std::span<std::byte> bytes;
  std::shared_ptr<void> keeper;
};

/// A message that has begun, and which of its blocks are missing: ranges [first, second) of them, ascending.
struct PartialMessage {
  std::uint64_t message = 0;
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> missing;
};

/// Why a group came to its end, and what this member has of it. Messages come in order: it has exactly those
/// below `delivered`, and of the others only what is told of those in `partial`.
struct GroupFailure {
  /// Who is to blame, as far as this member knows. This member itself: it has found its own failure. Empty if
  /// another member blames this one.
  std::optional<NodeId> node;
  Error error;
  std::uint64_t delivered = 0;  ///< the first message that this member has not got
  std::uint64_t stable = 0;     ///< messages below it are known to be everywhere
  std::vector<PartialMessage> partial;
};

/// Upcalls; any may be empty. Messages are numbered from 0.
struct GroupCallbacks {
  /// Receiver: a message of exactly `bytes` bytes begins. The answer is where it goes; nothing: into memory
  /// of post_receive_buffer, now or later.
  std::function<std::optional<std::span<std::byte>>(std::uint64_t message, std::uint64_t bytes)> incoming;
  /// Receiver: every byte of the message is in its memory, to be read.
  std::function<void(std::uint64_t message, std::span<std::byte> bytes)> delivered;
  /// Receiver, read_only: the message is here, in the root's memory, for reading: until release() - large
  /// messages with numbers 64 and more above one that is not released wait for that -, destroy_group() or
  /// failed(). Afterwards the root may write there; it may, too, once it has lost this member, of which this
  /// member, if it gets no turn, hears later. A root that wants to spare such members its writes drops the
  /// memory after failed() instead of using it again: the pages stay with those who look at them.
  std::function<void(std::uint64_t message, std::span<const std::byte> bytes)> mapped;
  /// The memory of this message is the application's again. At the root: all it had to send has been
  /// received, and what it has shown released.
  std::function<void(std::uint64_t message)> reusable;
  /// Every member has the messages below this number.
  std::function<void(std::uint64_t count)> stable;
  /// Root: for a second or longer the application of `node` has given no memory for `message`, or has not
  /// created the group, and everybody waits for it; of several such nodes it is the one with the lowest
  /// message. Nobody: that is over.
  std::function<void(std::optional<NodeId> node, std::uint64_t message)> held_up;
  /// The group has come to its end before destroy_group. Nothing more is delivered, unless it is continued;
  /// then it may fail again.
  std::function<void(const GroupFailure&)> failed;
  /// The group goes on: every survivor has the messages below `next`, they are stable, and the next one sent
  /// is number `next`. What else had begun is void, its memory the application's again - but buffers that
  /// were posted for it serve again. A root that stays sends what it had to, and what a root that becomes a
  /// receiver had to send is among the messages below `next`. To a member that joins it is the first upcall:
  /// its messages begin with `next`.
  std::function<void(std::uint64_t next)> continued;
};

/// Of one node since it was created, over all of its groups.
struct NodeCounters {
  std::uint64_t messages_sent = 0, bytes_sent = 0;            ///< as a root: what send() has taken
  std::uint64_t messages_delivered = 0, bytes_delivered = 0;  ///< as a receiver
  std::uint64_t groups_made = 0;
  std::uint64_t groups_failed = 0;     ///< calls of failed()
  std::uint64_t groups_continued = 0;  ///< calls of continued()
  std::uint64_t connections_made = 0;
  std::uint64_t connections_ended = 0;  ///< lost, or by disconnect()
};

class Node {
 public:
  /// Errors: those of opening the fabric; resource_limit.
  static Result<std::unique_ptr<Node>> create(const NodeOptions& options);
  /// Ends everything at once; groups that were not destroyed fail at their other members. Not in an upcall.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  NodeId id() const;
  bool encrypts() const;
  bool has_own_thread() const;
  /// With whom it shares its connections.
  const std::shared_ptr<Context>& context() const;

  // -- connections; each pair once, before their first group --

  /// What `peer` needs to connect to us: bytes, for the application to carry there. Errors: invalid_argument
  /// (ourselves), resource_limit.
  Result<std::vector<std::byte>> offer(NodeId peer);
  /// With what `peer` has offered us. Errors: protocol_error and version_mismatch (not such bytes),
  /// invalid_argument (connected already).
  Result<void> connect(NodeId peer, std::span<const std::byte> offered);
  /// Connected, and not lost since.
  bool is_connected(NodeId peer) const;
  /// Gives up what the connection takes. Groups with that peer fail; it may be offered another connection.
  void disconnect(NodeId peer);

  // -- groups --

  /// Needs no communication and sends nothing. All members make it, with the same members in the same order,
  /// the same root and the same options; what is sent before the last one has is kept for it. Errors:
  /// invalid_argument (an empty group, a member twice, a root or ourselves that is no member, options that
  /// make no sense), already_exists (the number is in use, or this epoch of it is over), peer_failed (not
  /// connected to a member that we need: to all where hosts are to be known), resource_limit (a thousand
  /// groups).
  Result<void> create_group(GroupNumber group, std::vector<NodeId> members, NodeId root,
                            const GroupOptions& options, GroupCallbacks callbacks);

  /// Root: sends `bytes` to all others; messages queue. Returns its number. Errors: not_found (no such
  /// group), invalid_argument (not the root; too long), peer_failed (the group has failed), cancelled (it is
  /// being destroyed), would_block (too many calls at once, or 65,536 messages that are not reusable() yet).
  Result<std::uint64_t> send(GroupNumber group, std::span<const std::byte> bytes);

  /// Receiver: memory for the next message that incoming() does not place, in the order of posting. Errors:
  /// those of send; invalid_argument for a buffer too small when the message is known - later that is
  /// failed().
  Result<void> post_receive_buffer(GroupNumber group, std::span<std::byte> buffer);

  /// Receiver: it needs a message of mapped() no longer. Errors: not_found, would_block.
  Result<void> release(GroupNumber group, std::uint64_t message);
  /// At least so many zero bytes, page aligned. Errors: resource_limit.
  Result<SharedMemory> allocate(std::size_t bytes);

  /// After failed(), among its survivors, or when others have noticed a failure that this member has not, or
  /// without any failure, to have another root or more members; a group that has not failed ends here without
  /// failed(), and may fail at the others, with `cancelled`, until they call this, too. The group goes on, in
  /// the same order and with the same numbers, once everybody has what anybody has delivered, and all else
  /// that the survivors have together; only blocks that somebody lacks are sent, by whoever has most of them.
  /// All survivors call it with the same list, members and whoever is to join, the same root - any of them -
  /// and the same epoch, higher than any before; who they are is the application's to agree upon. May be
  /// called again, with a higher epoch, when that fails or others are lost meanwhile. Connections to
  /// members that are left out are ended, and so are all groups that use them. A connection that was offered
  /// after the present epoch began stays. Whoever is to join is connected with all others, and calls
  /// create_group with `joins`. Until continued() sends are refused; post_receive_buffer and incoming() serve
  /// what is delivered. Errors: not_found, invalid_argument (not `can_continue`; one twice, without us or the
  /// root; no higher epoch; one that joins a group whose racks were named), peer_failed (one that joins is
  /// not connected: nothing has changed), cancelled (it is being destroyed).
  Result<void> continue_group(GroupNumber group, std::uint64_t epoch, std::vector<NodeId> survivors,
                              NodeId root);

  /// The epoch of a group: the present one, or the one that a continuation has begun. Errors: not_found.
  Result<std::uint64_t> epoch(GroupNumber group) const;

  /// The group's end as a barrier: when all members have called it, and have all messages, `destroyed` is
  /// called with success. Otherwise with why not, after failed(). Then all memory of the group is the
  /// application's. Errors: not_found, cancelled (called before), would_block.
  Result<void> destroy_group(GroupNumber group, std::function<void(Result<void>)> destroyed = {});

  /// Any thread, in upcalls as well; it waits for nothing.
  NodeCounters counters() const;

  /// Without an own thread, by the thread that created the node: one turn, and if there is nothing to do a
  /// wait of at most `longest`. Errors, with nothing done: invalid_argument (the node has a thread of its
  /// own; another thread; an upcall).
  Result<void> poll(Duration longest);
  /// Without an own thread, for a loop of the application's: a descriptor that is readable while poll({}) has
  /// something to do. Any of epoll, poll and io_uring can watch it. It is the node's, and the same each time;
  /// the thread that created the node asks for it. From then on poll() waits first, if it may, and returns
  /// when nothing is left to do, or after 64 turns. Errors: invalid_argument (the node has a thread of its
  /// own; another thread), unsupported (by this fabric), resource_limit.
  Result<int> descriptor();

 private:
  struct State;
  friend class NodeTurns;
  explicit Node(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmc
