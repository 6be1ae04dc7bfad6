// Groups of processes. One member of a group, the root, sends messages to all others. This is RDMC's
// interface (Behrens et al., DSN 2018, Figure 1) in C++. A Node is the part of this process in all its
// groups. It has the connections to other nodes, which all its groups share, and an engine that moves the
// bytes. The engine runs on a fabric thread of its own, or in the application's calls of poll().
//
// Any thread may call any function, except where a function says otherwise. Upcalls run on the fabric thread,
// one at a time for the whole node. They may call functions of the node, and must not block. While an upcall
// runs, the node answers no other node. If an upcall takes half a second, other nodes may count the node as
// dead. So incoming() should not, for example, fill a large new vector with zeros.
//
// The application gives memory to a group in send(), in incoming() and in post_receive_buffer(). This memory
// still belongs to the application. But the application must neither write nor free it until reusable() has
// named its message, or until the group has ended. The group has ended when the upcall of destroy_group() was
// called. A call of failed() is not enough.
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

/// The number of a node. The application chooses it, and all nodes must use the same number for the same
/// node.
enum class NodeId : std::uint32_t {};
/// The number of a group. All members of the group use the same number.
enum class GroupNumber : std::uint64_t {};

struct NodeOptions {
  NodeId id{};
  /// The address of the local network at which the node's fabric listens. Port number 0 means port number
  /// 4791, which is RoCE's, if it is free. If it is not free, port number 0 means any free port number. RDMA
  /// NICs can send only to port number 4791.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  /// The fabric: "auto", "udp", "shm", "verbs" or "dpdk".
  std::string fabric = "auto";
  /// The device, for fabrics that need one (dpdk), in the syntax of `rdmc_bcast --device`.
  std::string device = {};
  /// The Context whose fabric thread and connections the node uses. If null, the node uses the Context of the
  /// process.
  std::shared_ptr<Context> context = nullptr;
  /// If false, the thread that creates the node must drive it by calling poll(), and must destroy it. The
  /// node then shares no fabric thread. Other threads may call send, post_receive_buffer, release,
  /// destroy_group and disconnect. disconnect() from another thread takes effect in the next turn, but is
  /// dropped if the engine's queue is full. All functions that would have to wait for a turn of the engine
  /// return invalid_argument in another thread, and is_connected() returns false in another thread.
  bool own_thread = true;
  /// If true, the fabric thread never sleeps while it waits. It then needs a CPU core of its own.
  bool busy_poll = false;
  /// The time for which other members may wait for a group that this node has not created. After that time,
  /// the group fails with timed_out at the members that have sent something in it, and this node can no
  /// longer create the group in that epoch. 0 means no limit. In that case the node keeps up to 8 MB of what
  /// the members have sent, and held_up() at the root names this node.
  Duration creation_timeout{};
  /// If true, all data that leaves this host is encrypted with AES-256-GCM. This option must be the same at
  /// every node. Offers then contain keys, so the application must keep the offers secret when it transmits
  /// them.
  bool encrypt = false;
};

/// The maximum length of a note. See Node::tell_root().
inline constexpr std::size_t kMostNote = 1 << 20;

/// The value of GroupOptions::algorithm with which the root chooses an algorithm for each message. The root
/// learns from the times that messages take.
inline constexpr std::nullopt_t kAutomatic = std::nullopt;
/// The block size that is used if GroupOptions::block_bytes is 0 and the root does not choose a size for each
/// message.
inline constexpr std::uint32_t kUsualBlockBytes = 256 * 1024;

struct GroupOptions {
  /// The epoch of this use of the group number. It must be higher than in any earlier use of the number by
  /// one of the members.
  std::uint64_t epoch = 0;
  /// The size of the blocks in which messages are sent. It must be the same at every member. If it is 0, the
  /// root chooses a size for each message with kAutomatic and without can_continue. In all other cases, 0
  /// means 256 KB.
  std::uint32_t block_bytes = 0;
  /// The rule by which members pass blocks on to each other. It must be the same at every member. With
  /// kAutomatic, the root chooses the rule and announces it.
  /// kAutomatic has a cost. To compare algorithms, the root sometimes sends one message alone, and the later
  /// messages wait until all members have that message. This happens for about 6 of the first 50 messages of
  /// a certain length, and for a few of each 256 messages after these. So a queue of messages can be much
  /// slower than with a named algorithm. In each epoch of a group, the root begins to learn again.
  /// With the algorithms for hosts, host_pipeline and host_trees, each host receives each block once for all
  /// its members. With kAutomatic and with circulant, a message that is sent alone takes one round trip more
  /// than with the other algorithms.
  std::optional<relay::Algorithm> algorithm = relay::Algorithm::binomial_pipeline;
  /// The rack of each member, in the order of `members`. Each rack can have any number as its name. The list
  /// must be the same at every member. Algorithms that use racks send little between racks. If the list is
  /// empty, all members are in one rack, with one exception: kAutomatic and the algorithms for hosts then
  /// treat each host as a rack. For this, every member must be connected with all others.
  std::vector<std::uint32_t> racks;
  /// Messages of at most this length are small: several of them can share a packet. This length must be the
  /// same at every member.
  std::uint32_t small_bytes = 4096;
  /// The time for which a message may wait for memory at this member. After that time, this member fails, and
  /// so does the group. 0 means no limit. In that case the root's messages queue until send() returns
  /// would_block, and held_up() at the root names this member.
  Duration receive_timeout{};
  /// If true, the survivors of a failure can call continue_group(). For this, every member keeps every
  /// message until it is stable, so reusable() is called later. This option must be the same at every member.
  bool can_continue = false;
  /// If true, this member joins a group that exists already. The other members must call continue_group()
  /// with the same epoch. This member gets the messages that come after its upcall continued(). Requires
  /// can_continue.
  bool joins = false;
  /// If true, receivers on the root's host read large messages in the root's memory, without a copy. The
  /// upcall mapped() is called for such a message. The message must be in memory that the root got from
  /// allocate() and that all members can map. All other messages are received as usual, and delivered() is
  /// called for them. This option must be the same at every member. It must not be combined with
  /// can_continue.
  bool read_only = false;
};

/// Memory that other nodes on the same host can map. It may outlive the node that allocated it.
struct SharedMemory {
  std::span<std::byte> bytes;
  std::shared_ptr<void> keeper;  ///< the memory stays allocated while this exists
};

/// A message of which only some blocks have been received. `missing` lists the other blocks as ranges [first,
/// second), in ascending order.
struct PartialMessage {
  std::uint64_t message = 0;
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> missing;
};

/// Describes why a group has ended, and which messages this member has. Messages are delivered in order. So
/// this member has all messages below `delivered`. Of the later messages, it has only the blocks that
/// `partial` describes.
struct GroupFailure {
  /// The node that has caused the failure, as far as this member knows. If this member has found that it has
  /// failed itself, `node` is its own id. If another member names this member as the cause, `node` is empty.
  std::optional<NodeId> node;
  Error error;
  std::uint64_t delivered = 0;  ///< the number of the first message that this member has not received
  std::uint64_t stable = 0;     ///< all members are known to have the messages below this number
  std::vector<PartialMessage> partial;
};

/// The upcalls of a group. Any of them may be empty. Messages are numbered from 0.
struct GroupCallbacks {
  /// Called at a receiver when a message of exactly `bytes` bytes begins. Must return the memory for the
  /// message. If it returns nullopt, the message goes into a buffer of post_receive_buffer(). This buffer may
  /// also be posted later. incoming() is not called again for a message for which it has returned memory.
  /// But after continued(), the numbers from `next` on belong to new messages. So incoming() may be called
  /// for such a number although it was called for this number before, and the length may differ.
  std::function<std::optional<std::span<std::byte>>(std::uint64_t message, std::uint64_t bytes)> incoming;
  /// Called at a receiver when the whole message is in its memory and may be read.
  std::function<void(std::uint64_t message, std::span<std::byte> bytes)> delivered;
  /// Called at a receiver of a group with read_only when the message has arrived. `bytes` is in the root's
  /// memory, and must only be read. It may be read until release(), destroy_group() or failed() is called. A
  /// large message is delayed while a message whose number is lower by 64 or more is not released.
  /// After release(), destroy_group() or failed(), the root may overwrite the memory. The root may also
  /// overwrite the memory when the root has lost this member. If such a member gets no processor time, it
  /// learns only later that the root has lost it. Until then it may read wrong bytes. To protect such
  /// members, the root must free the memory after failed() instead of using it again. The pages then stay
  /// valid for the processes that have mapped them.
  std::function<void(std::uint64_t message, std::span<const std::byte> bytes)> mapped;
  /// Called when the application may use the memory of this message again. At the root, this means that all
  /// members to which the root sends have received the message, and have released it if it was mapped.
  std::function<void(std::uint64_t message)> reusable;
  /// Called when every member has the messages below `count`.
  std::function<void(std::uint64_t count)> stable;
  /// Called at the root when the application of `node` delays the group. There are two causes:
  ///   - For at least one second, it has given no memory for `message`.
  ///   - It has not created the group, although messages have waited for it for a second. `message` is 0.
  /// If several members delay the group, `node` is the one with the lowest message. The upcall is called
  /// again when `node` or `message` changes. If `node` is nullopt, no member delays the group any longer.
  std::function<void(std::optional<NodeId> node, std::uint64_t message)> held_up;
  /// Called at the root with a note that the node `from` has sent by tell_root(). `note` is valid only during
  /// the upcall.
  std::function<void(NodeId from, std::span<const std::byte> note)> told;
  /// Called when the group has failed. Nothing is delivered after this, unless the application calls
  /// continue_group(). A group that was continued may fail again.
  std::function<void(const GroupFailure&)> failed;
  /// Called when the group goes on in a new epoch. Every survivor has the messages below `next`, and these
  /// are stable. The next message has the number `next`. A root that stays the root still sends the messages
  /// that it had queued. If the root becomes a receiver, the messages that it had queued are among those
  /// below `next`. All other messages from `next` on that had begun are cancelled. For a member that joins,
  /// this is the first upcall, and its first message has the number `next`.
  /// When the application may use the memory of a message again after continued():
  ///   memory of                                 below `next`             from `next` on
  ///   send(), root that stays the root          at reusable()            at reusable(): it is still sent
  ///   send(), root that becomes a receiver      at reusable()            no such message exists
  ///   incoming()                                at reusable()            at continued()
  ///   post_receive_buffer(), used by a message  at reusable()            the group keeps the buffer
  ///   post_receive_buffer(), not used yet       the group keeps the buffer for a later message
  /// reusable() is called for all messages below `next` before continued() is called. It is not called for
  /// messages from `next` on that are cancelled.
  std::function<void(std::uint64_t next)> continued;
};

/// Counters of one node over all its groups, since the node was created.
struct NodeCounters {
  std::uint64_t messages_sent = 0, bytes_sent = 0;            ///< counted at roots: accepted by send()
  std::uint64_t messages_delivered = 0, bytes_delivered = 0;  ///< counted at receivers
  std::uint64_t groups_made = 0;
  std::uint64_t groups_failed = 0;     ///< calls of failed()
  std::uint64_t groups_continued = 0;  ///< calls of continued()
  std::uint64_t connections_made = 0;
  std::uint64_t connections_ended = 0;  ///< lost, or ended by disconnect()
};

class Node {
 public:
  /// Makes a node. Errors: those of opening the fabric, and resource_limit.
  static Result<std::unique_ptr<Node>> create(const NodeOptions& options);
  /// Ends the node at once. Groups that were not destroyed fail at their other members. Must not be called in
  /// an upcall.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// These three functions return the options with which the node was created.
  NodeId id() const;
  bool encrypts() const;
  bool has_own_thread() const;
  /// Returns the Context whose connections the node uses.
  const std::shared_ptr<Context>& context() const;

  // -- connections: connect each pair of nodes once, before their first group --

  /// Returns the bytes that `peer` needs to connect to this node. The application must transmit these bytes,
  /// and `peer` must pass them to its connect(). Errors: invalid_argument if `peer` is this node,
  /// resource_limit.
  Result<std::vector<std::byte>> offer(NodeId peer);
  /// Connects to `peer` with the bytes that its offer() returned. This node must have called offer() for
  /// `peer` before. Errors: protocol_error or version_mismatch if the bytes are not such an offer,
  /// invalid_argument if the nodes are connected already, not_found if offer() was not called.
  Result<void> connect(NodeId peer, std::span<const std::byte> offered);
  /// Returns true if the nodes are connected and the connection has not been lost.
  bool is_connected(NodeId peer) const;
  /// Ends the connection and frees its memory. Groups with that peer fail. Afterwards, offer() and connect()
  /// can make a new connection to the peer.
  void disconnect(NodeId peer);

  // -- groups --

  /// Makes this member's part of a group, without any communication. All members must make the group with the
  /// same root, the same options, and the same members in the same order. Messages that are sent before the
  /// last member has made the group are kept for that member. Errors: invalid_argument if the group is empty,
  /// a member appears twice, the root or this node is not a member, or the options are not valid;
  /// already_exists if the number is in use, or if the group had this epoch before and the epoch has ended;
  /// peer_failed if this node is not connected to a member that it needs; resource_limit if there are 1023
  /// groups. If the hosts are used as racks, this node needs a connection to every member.
  Result<void> create_group(GroupNumber group, std::vector<NodeId> members, NodeId root,
                            const GroupOptions& options, GroupCallbacks callbacks);

  /// Root only: sends `bytes` to all other members, after all messages that were sent earlier. Returns the
  /// number of the message. Errors: not_found if there is no such group, invalid_argument if this node is not
  /// the root or the message is too long, peer_failed if the group has failed, cancelled if the group is
  /// being destroyed, would_block if too many earlier calls still wait for the fabric thread, if 65,536
  /// messages are not reusable() yet, or if the group is being continued.
  Result<std::uint64_t> send(GroupNumber group, std::span<const std::byte> bytes);

  /// Receiver only: gives memory for the next message for which incoming() returns no memory. Buffers are
  /// used in the order of posting. If a buffer is too small for its message, this member fails, and failed()
  /// is called. Errors: not_found if there is no such group, invalid_argument if this node is the root,
  /// peer_failed if the group has failed, cancelled if the group is being destroyed, would_block if too many
  /// earlier calls still wait for the fabric thread.
  Result<void> post_receive_buffer(GroupNumber group, std::span<std::byte> buffer);

  /// Sends a note to the root, at whose application the upcall told() gets it. The notes of one member arrive
  /// once and in their order. If the present epoch of the group ends before a note has arrived, the note is
  /// lost. If this node is the root, its own application gets the note. There is no flow control: a member
  /// must not have more than 2 MB of notes on their way. Errors: not_found if there is no such group;
  /// invalid_argument if the note is longer than kMostNote; peer_failed if the group has failed; cancelled if
  /// the group is being destroyed; would_block if the group is being continued, or if too many earlier calls
  /// still wait for the fabric thread.
  Result<void> tell_root(GroupNumber group, std::span<const std::byte> note);

  /// Receiver only: states that the application no longer reads a message of mapped(). Errors: not_found if
  /// there is no such group, would_block if too many earlier calls still wait for the fabric thread.
  Result<void> release(GroupNumber group, std::uint64_t message);
  /// Allocates at least `bytes` bytes of page-aligned memory, filled with zeros. Errors: resource_limit.
  Result<SharedMemory> allocate(std::size_t bytes);

  /// Begins the next epoch of a group. The survivors call this function after failed(). They may also call it
  /// without a failure, to change the root or to add members.
  /// All members of the new epoch must call it with the same values, except those that join. `survivors`
  /// lists the members of the new epoch, including those that join. `root` is one of these members. `epoch`
  /// must be higher than any earlier one. The application must make all members agree on these values. A
  /// member that joins must be connected with all others, and calls create_group() with `joins` instead.
  /// First, every survivor gets all messages that any survivor has delivered. It also gets every other
  /// message of which each block is at some survivor. Only missing blocks are sent. Then the group goes on,
  /// with the same order and numbering.
  /// If the new epoch fails to begin, or if more members are lost, call the function again with a higher
  /// epoch. If the group has not failed at this member, its present epoch ends here without failed(). At
  /// another member, the group may then fail with `cancelled` before that member calls this function, too.
  /// Connections to members that are left out end, and so do all groups that use these connections. But a
  /// connection that was made after the present epoch began stays. Until continued() is called, send()
  /// returns would_block. Messages below the `next` of continued() are still delivered in this time, into
  /// memory from post_receive_buffer() and incoming().
  /// Errors: not_found if there is no such group; invalid_argument if the group has no can_continue, a member
  /// appears twice, this node or the root is not in the list, the epoch is not higher, or a member joins a
  /// group with named racks; peer_failed, without any effect, if a joining member is not connected; cancelled
  /// if the group is being destroyed.
  Result<void> continue_group(GroupNumber group, std::uint64_t epoch, std::vector<NodeId> survivors,
                              NodeId root);

  /// Returns the present epoch of a group, which create_group() or continue_group() has begun. Errors:
  /// not_found if there is no such group.
  Result<std::uint64_t> epoch(GroupNumber group) const;

  /// Ends the group with a barrier. When all members have called this function and have all messages,
  /// `destroyed` is called with success. If that is not possible, `destroyed` is called with the error, after
  /// failed(). From that upcall on, the application may use all memory that it gave to the group. Errors:
  /// not_found if there is no such group, cancelled if the function was called before, would_block.
  Result<void> destroy_group(GroupNumber group, std::function<void(Result<void>)> destroyed = {});

  /// Returns the present counters. Any thread may call this function, also in an upcall. It never waits.
  NodeCounters counters() const;

  /// Gives the engine one turn. If there is nothing to do, waits for at most `longest`. Must be called only
  /// for a node without a thread of its own, and only on the thread that created it. Errors, without any
  /// effect: invalid_argument if the node has a thread of its own, or if this is called on another thread or
  /// in an upcall.
  Result<void> poll(Duration longest);
  /// Returns a descriptor for the application's own event loop (epoll, poll or io_uring). It is readable
  /// while poll({}) has something to do. Must be called only for a node without a thread of its own, and only
  /// on the thread that created it. The node owns the descriptor, and returns the same one each time. After
  /// the first call of this function, poll() does its steps in another order. It first waits, if `longest`
  /// permits it. Then it gives the engine turns until nothing is left to do, but at most 64 turns. Errors:
  /// invalid_argument if the node has a thread of its own or another thread calls, unsupported if the fabric
  /// has no descriptor, resource_limit.
  Result<int> descriptor();

 private:
  struct State;
  friend class NodeTurns;
  explicit Node(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmc
