// Groups of processes. One member of a group, the root, sends messages to all others. This is RDMC's
// interface (Behrens et al., DSN 2018, Figure 1) in C++. A Node is this process's part. It has the
// connections to other nodes, which all its groups share, and an engine that moves the bytes. The engine runs
// on a fabric thread of its own, or in the application's calls of poll().
//
// Any thread may call any function, except where a function says otherwise. Upcalls run on the fabric thread,
// one at a time for the whole node. They may call functions of the node, and must not block.
//
// Memory that the application gives to a group (to send, in incoming(), or by post_receive_buffer()) stays
// the application's. The application must neither write nor free it until reusable() has named its message,
// or until the group has ended: destroyed() was called, or failed() and then destroyed().
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
/// The number of a group, the same at all its members.
enum class GroupNumber : std::uint64_t {};

struct NodeOptions {
  NodeId id{};
  /// The address of the local network at which the node's fabric listens. Port 0 means RoCE's port number
  /// 4791 if it is free, and else any. RDMA NICs can send only to 4791.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  /// "auto", "udp", "shm", "verbs", "dpdk"
  std::string fabric = "auto";
  /// The device, for fabrics that need one (dpdk), in the syntax of `rdmc_bcast --device`.
  std::string device = {};
  /// The Context whose fabric thread and connections the node uses. If null, the Context of the process.
  std::shared_ptr<Context> context = nullptr;
  /// If false, the thread that creates the node must call poll() and must destroy the node. The node then
  /// shares no fabric thread. Other threads may call send, post_receive_buffer, release, destroy_group and
  /// disconnect. disconnect() from another thread takes effect in the next turn, but is dropped if the
  /// engine's queue is full. Calls from another thread that would have to wait for a turn return
  /// invalid_argument, and is_connected() returns false.
  bool own_thread = true;
  /// If true, the fabric thread never sleeps while it waits. It then needs a CPU core of its own.
  bool busy_poll = false;
  /// How long other members may wait for a group that this node has not created. After that time, the group
  /// fails with timed_out at the members that have sent something in it, and cannot be created here in that
  /// epoch. 0 means no limit: what they have sent is kept, up to 8 MB, and held_up() names this node to the
  /// root.
  Duration creation_timeout{};
  /// If true, all that leaves this host is encrypted with AES-256-GCM. It must be the same at every node.
  /// Offers then contain the keys, so the application must transmit them in secret.
  bool encrypt = false;
};

/// A value of GroupOptions::algorithm: the root chooses an algorithm for each message, and learns from the
/// times that messages take.
inline constexpr std::nullopt_t kAutomatic = std::nullopt;
/// The block size that GroupOptions::block_bytes == 0 means if it is not chosen for each message.
inline constexpr std::uint32_t kUsualBlockBytes = 256 * 1024;

struct GroupOptions {
  /// The epoch of this use of the group number. It must be higher than in any earlier use of the number by
  /// one of the members.
  std::uint64_t epoch = 0;
  /// The size of a block. Messages are sent in blocks. The same at every member. 0 means: with kAutomatic,
  /// chosen for each message; otherwise, and always with can_continue, 256 KB.
  std::uint32_t block_bytes = 0;
  /// The rule by which members pass blocks on to each other. The same at every member. With kAutomatic, the
  /// root chooses and announces it.
  /// The cost of kAutomatic: to compare algorithms, the root sometimes sends one message alone, and the later
  /// messages wait until all members have it. This happens for about 6 of the first 50 messages of a length,
  /// and for a few more in each 256. So a queue of messages can be much slower than with a named algorithm.
  /// Each epoch of a group begins to learn again.
  /// With the algorithms for hosts, host_pipeline and host_trees, each host receives each block once for all
  /// its members. With kAutomatic and with circulant, a message that is sent alone takes one round trip more
  /// than with the other algorithms.
  std::optional<relay::Algorithm> algorithm = relay::Algorithm::binomial_pipeline;
  /// The rack of each member, as any number, in the order of `members`. The same at every member. Algorithms
  /// that use racks send little between them. If empty, all members are in one rack. But kAutomatic and the
  /// algorithms for hosts then treat each host as a rack, and every member must be connected with all others.
  std::vector<std::uint32_t> racks;
  /// Messages of at most this length are small: several of them share a packet. The same at every member.
  std::uint32_t small_bytes = 4096;
  /// How long a message may wait for memory at this member. After that time this member fails, and the group
  /// with it. 0 means no limit: the root's messages then queue until send() returns would_block, and
  /// held_up() names this member to the root.
  Duration receive_timeout{};
  /// If true, the survivors of a failure can call continue_group(). For this, every member keeps every
  /// message until it is stable, so reusable() comes later. The same at every member.
  bool can_continue = false;
  /// If true, the group exists already, and this member joins it: the others call continue_group() with the
  /// same epoch. This member gets the messages from continued() on. Requires can_continue.
  bool joins = false;
  /// If true, receivers on the root's host read large messages in the root's memory, without a copy. Such a
  /// message comes by mapped(). This works if the root has the message in memory from allocate() that all
  /// members can map. All other messages come as usual. The same at every member. Must not be combined with
  /// can_continue.
  bool read_only = false;
};

/// Memory that other nodes on the same host can map. It may outlive the node that allocated it.
struct SharedMemory {
  std::span<std::byte> bytes;
  std::shared_ptr<void> keeper;  ///< keeps the memory allocated
};

/// A message of which only some blocks have been received. `missing` has the other blocks as ranges [first,
/// second), in ascending order.
struct PartialMessage {
  std::uint64_t message = 0;
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> missing;
};

/// Why a group has ended, and which messages this member has. Messages are delivered in order. So it has
/// exactly the messages below `delivered`, and the blocks of later messages that `partial` describes.
struct GroupFailure {
  /// The node that has caused the failure, as far as this member knows. This member's own id if it has found
  /// its own failure. Empty if another member names this one as the cause.
  std::optional<NodeId> node;
  Error error;
  std::uint64_t delivered = 0;  ///< the number of the first message that this member has not received
  std::uint64_t stable = 0;     ///< all members are known to have the messages below it
  std::vector<PartialMessage> partial;
};

/// The upcalls of a group. Any of them may be empty. Messages are numbered from 0.
struct GroupCallbacks {
  /// Receiver: a message of exactly `bytes` bytes begins. Returns the memory for it. If it returns nullopt,
  /// the message goes into a buffer of post_receive_buffer(), which may be posted later.
  std::function<std::optional<std::span<std::byte>>(std::uint64_t message, std::uint64_t bytes)> incoming;
  /// Receiver: the whole message is in its memory, and may be read.
  std::function<void(std::uint64_t message, std::span<std::byte> bytes)> delivered;
  /// Receiver, with read_only: the message has arrived, and `bytes` is the root's memory, for reading only.
  /// It may be read until release(), destroy_group() or failed(). A large message whose number is at least 64
  /// above that of an unreleased message waits until that one is released.
  /// Afterwards the root may overwrite the memory. It may also do so when it has lost this member, and a
  /// member that gets no turn learns of that later. A root that wants to protect such members frees the
  /// memory after failed() instead of using it again. The pages then stay valid for the processes that have
  /// mapped them.
  std::function<void(std::uint64_t message, std::span<const std::byte> bytes)> mapped;
  /// The memory of this message is the application's again. At the root, all members to which the root sends
  /// have received the message and have released it if it was mapped.
  std::function<void(std::uint64_t message)> reusable;
  /// Every member has the messages below `count`.
  std::function<void(std::uint64_t count)> stable;
  /// Root: for at least one second, all members have waited for the application of `node`, which has given no
  /// memory for `message` or has not created the group. If several nodes are like this, the upcall names the
  /// one with the lowest message. nullopt means that no member waits any longer.
  std::function<void(std::optional<NodeId> node, std::uint64_t message)> held_up;
  /// The group has ended before destroy_group(). Nothing more is delivered, unless the group is continued.
  /// After that it may fail again.
  std::function<void(const GroupFailure&)> failed;
  /// The group goes on. Every survivor has the messages below `next`; they are stable, and the next message
  /// is number `next`. All other messages that had begun are cancelled. Their memory is the application's
  /// again, except for buffers from post_receive_buffer(), which serve again. A root that stays the root
  /// still sends what it had queued. If the root becomes a receiver, what it had queued is among the messages
  /// below `next`. For a member that joins, this is the first upcall, and its messages begin with `next`.
  std::function<void(std::uint64_t next)> continued;
};

/// Counters of one node over all its groups, since the node was created.
struct NodeCounters {
  std::uint64_t messages_sent = 0, bytes_sent = 0;            ///< as a root: accepted by send()
  std::uint64_t messages_delivered = 0, bytes_delivered = 0;  ///< as a receiver
  std::uint64_t groups_made = 0;
  std::uint64_t groups_failed = 0;     ///< calls of failed()
  std::uint64_t groups_continued = 0;  ///< calls of continued()
  std::uint64_t connections_made = 0;
  std::uint64_t connections_ended = 0;  ///< lost, or ended by disconnect()
};

class Node {
 public:
  /// Makes a node. Errors: those of opening the fabric, resource_limit.
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
  /// The Context whose connections the node uses.
  const std::shared_ptr<Context>& context() const;

  // -- connections: connect each pair of nodes once, before their first group --

  /// Returns the bytes that `peer` needs to connect to this node. The application transmits them, and `peer`
  /// gives them to its connect(). Errors: invalid_argument if `peer` is this node, resource_limit.
  Result<std::vector<std::byte>> offer(NodeId peer);
  /// Connects to `peer` with the bytes that its offer() returned. This node must have called offer() for
  /// `peer` before. Errors: protocol_error or version_mismatch if the bytes are not such an offer,
  /// invalid_argument if the nodes are connected already, not_found if offer() was not called.
  Result<void> connect(NodeId peer, std::span<const std::byte> offered);
  /// True if the nodes are connected, and the connection has not been lost.
  bool is_connected(NodeId peer) const;
  /// Ends the connection and frees what it uses. Groups with that peer fail. The peer may be offered a new
  /// connection.
  void disconnect(NodeId peer);

  // -- groups --

  /// Makes this member's part of a group, without any communication. All members must make the group with the
  /// same root, the same options, and the same members in the same order. What is sent before the last member
  /// has made it is kept for that member. Errors: invalid_argument if the group is empty, a member appears
  /// twice, the root or this node is not a member, or the options are not valid; already_exists if the number
  /// is in use or this epoch of it has ended; peer_failed if this node is not connected to a member that it
  /// needs (to all members if the hosts must be known); resource_limit if there are 1023 groups.
  Result<void> create_group(GroupNumber group, std::vector<NodeId> members, NodeId root,
                            const GroupOptions& options, GroupCallbacks callbacks);

  /// Root only: sends `bytes` to all other members, after the messages sent before. Returns the number of the
  /// message. Errors: not_found if there is no such group, invalid_argument if this node is not the root or
  /// the message is too long, peer_failed if the group has failed, cancelled if it is being destroyed,
  /// would_block if too many calls wait or 65,536 messages are not reusable() yet, or while the group is
  /// being continued.
  Result<std::uint64_t> send(GroupNumber group, std::span<const std::byte> bytes);

  /// Receiver only: gives memory for the next message for which incoming() returns no memory. Buffers are
  /// used in the order of posting. If a buffer is too small for its message, this member fails, and failed()
  /// is called. Errors: not_found if there is no such group, invalid_argument if this node is the root,
  /// peer_failed if the group has failed, cancelled if it is being destroyed, would_block if too many calls
  /// wait.
  Result<void> post_receive_buffer(GroupNumber group, std::span<std::byte> buffer);

  /// Receiver: ends the use of a message that came by mapped(). Errors: not_found if there is no such group,
  /// would_block if too many calls wait.
  Result<void> release(GroupNumber group, std::uint64_t message);
  /// Returns at least `bytes` zero bytes, page-aligned. Errors: resource_limit.
  Result<SharedMemory> allocate(std::size_t bytes);

  /// Begins the next epoch of a group. Call it among the survivors after failed(). It may also be called
  /// without a failure, to change the root or to add members.
  /// All members of the new epoch must call it, with the same list of `survivors` (old and joining members),
  /// the same `root` (any of them) and the same `epoch`. The epoch must be higher than any before. The
  /// application must agree on these values. A member that joins must be connected with all others, and calls
  /// create_group() with `joins` instead.
  /// The group goes on, with the same order and numbering, when every survivor has all messages that any
  /// survivor has delivered, and all others whose blocks the survivors hold together. Only missing blocks are
  /// sent. If this fails, or more members are lost, call it again with a higher epoch. A group that has not
  /// failed at this member ends here without failed(). It may fail at the others with `cancelled` until they
  /// call this too.
  /// Connections to members that are left out end, and so do all groups that use them. A connection that was
  /// made after the present epoch began stays. Until continued(), send() is refused. post_receive_buffer()
  /// and incoming() give memory for the messages that are still delivered.
  /// Errors: not_found; invalid_argument if the group has no can_continue, a member appears twice, this node
  /// or the root is not in the list, the epoch is not higher, or a member joins a group with named racks;
  /// peer_failed if a joining member is not connected, and then nothing has changed; cancelled if the group
  /// is being destroyed.
  Result<void> continue_group(GroupNumber group, std::uint64_t epoch, std::vector<NodeId> survivors,
                              NodeId root);

  /// Returns the present epoch of a group, which may have been begun by create_group() or by a continuation.
  /// Errors: not_found.
  Result<std::uint64_t> epoch(GroupNumber group) const;

  /// Ends the group as a barrier: when all members have called it and have all messages, `destroyed` is
  /// called with success. If that is not possible, it is called with the error, after failed(). After
  /// `destroyed`, all memory of the group is the application's. Errors: not_found, cancelled if it was called
  /// before, would_block.
  Result<void> destroy_group(GroupNumber group, std::function<void(Result<void>)> destroyed = {});

  /// Any thread may call it, also in an upcall. It never waits.
  NodeCounters counters() const;

  /// Gives the engine one turn, and if there is nothing to do, waits for at most `longest`. Only for a node
  /// without a thread of its own, on the thread that created it. Errors, without any effect: invalid_argument
  /// if the node has a thread of its own, or if another thread or an upcall calls.
  Result<void> poll(Duration longest);
  /// Returns a descriptor for the application's own event loop (epoll, poll or io_uring). It is readable
  /// while poll({}) has something to do. Only for a node without a thread of its own, on the thread that
  /// created it. The node owns the descriptor, and returns the same one each time. From the first call on,
  /// poll() first waits, if `longest` permits it, and then gives turns until nothing is left to do, at most
  /// 64. Errors: invalid_argument if the node has a thread of its own or another thread calls, unsupported if
  /// the fabric has no descriptor, resource_limit.
  Result<int> descriptor();

 private:
  struct State;
  friend class NodeTurns;
  explicit Node(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmc
