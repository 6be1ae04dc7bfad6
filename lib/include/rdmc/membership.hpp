// Memberships. A membership is a process's part in a named group of processes. All members agree on the view,
// which is the list of the current members. Every change makes a new view with the next epoch. What a process
// sends after it has been removed has no effect at members that have installed the view without it. A
// membership also offers groups, in which a root sends messages to all members (rdmc/group.hpp). Such a group
// continues by itself when a member dies, leaves or joins, and when the root is replaced by another member.
// controlplane/view/README.md explains how members agree on views.
//
// Threads: any thread may call any function, except where a function says otherwise. Upcalls of a membership
// run on the control loop of its Context, one at a time. They must not block, and must not destroy the
// membership. Upcalls of a group run on its fabric thread, one at a time, and must not block either.
//
// The control loop sometimes waits for the fabric thread. So an upcall of a group, or of an endpoint
// (rdmc/unicast.hpp), must not make or destroy a membership or a group of a membership, and must not call
// Membership::counters(). An upcall of a membership must not wait for a connection of an endpoint: it may
// call only the Endpoint::connect() that takes an upcall.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmc/group.hpp>
#include <rdmc/launch.hpp>

namespace rdmc {

/// The id of one process in one membership. It is random, and is never used again: a process that joins
/// again, or that was started again, gets another id.
enum class MemberId : std::uint64_t {};

struct Member {
  MemberId id{};
  std::string name;  ///< a description for people
  Address address;   ///< the address at which the member accepts control connections
  Epoch since{};     ///< the epoch of the first view that contains the member

  friend bool operator==(const Member&, const Member&) = default;
};

/// A view. With epoch 0 and without members, it means that this process has not been in a view yet.
struct View {
  Epoch epoch{};
  std::vector<Member> members{};  ///< the oldest member first

  /// Returns the member with this id, or null if it is not in the view.
  const Member* find(MemberId id) const;
  friend bool operator==(const View&, const View&) = default;
};

/// The store in which views are agreed: an embedded store or etcd. Exactly one of `nodes` and `etcd` must be
/// given.
struct ViewStoreOptions {
  /// The addresses of the one or three store nodes of the embedded store, in the same order in every process.
  /// A store node is a process `rdmc_control serve`, or it runs inside a member (see `runs`). `rdmc_control
  /// serve` uses port number 7701 if no other is given. A store node inside a member needs a port number of
  /// its own, different from the member's.
  std::vector<Address> nodes{};
  /// The index of the store node that this process runs. Without a value, this process is only a client of
  /// the store nodes. A new store of three nodes begins when all three nodes run at the same time for the
  /// first time. Before that, no process can join. After that, any two of the nodes are enough.
  std::optional<std::size_t> runs{};
  /// The directory where the store node of this process keeps its state. If empty, the store node keeps its
  /// state in memory.
  std::string directory{};
  /// The client addresses of etcd's members.
  std::vector<Address> etcd{};
};

struct MembershipOptions {
  std::string group{};  ///< the name of the named group, 1 to 249 bytes
  std::string name{};   ///< a description of this process, for people
  /// The address at which this process accepts control connections. Port 0 means any free port.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  ViewStoreOptions store{};
  /// Exactly one of `key_file`, `certificates` and `insecure` must be given, as in MeshOptions.
  std::string key_file{};
  Certificates certificates{};
  bool insecure = false;              ///< if true, there is no key and no protection
  std::string fabric = "auto";        ///< see NodeOptions::fabric
  std::string device{};               ///< see NodeOptions::device
  std::uint32_t window_bytes = 4096;  ///< the size of the window; see Membership::write
  bool encrypt = false;               ///< see NodeOptions::encrypt; it must be the same at every member
  /// The duration of this process's lease: 20 ms to 1 s, or 0 for no lease.
  Duration lease{};
  std::shared_ptr<Context> context{};  ///< if null, the Context of the process is used
};

/// Returns options for a process of a job. The name of the named group is "job " followed by the job's name.
/// The first three processes run the store nodes, which keep their state in memory. If the job has fewer than
/// three processes, only the first process runs a store node. Views can change as long as two of three store
/// nodes live. The store nodes use the ports that connect_mesh() uses, so connect_mesh() must not run at the
/// same time. Errors: not_found if a host name has no address, invalid_argument if no valid name of a group
/// can be made from the job's name.
Result<MembershipOptions> membership_options(const LaunchedJob& job);

/// A member that stays in the view although the member link between it and this process is bad.
struct UnreachableMember {
  MemberId member{};
  bool is_heard = false;  ///< messages of the member arrive at this process
  bool hears_us = false;  ///< messages of this process arrive at the member
};

/// The upcalls of a membership. They run on the control loop. Any of them may be empty.
struct MembershipCallbacks {
  /// Called when a new view was agreed and installed here. From now on, nothing from an earlier epoch has any
  /// effect here. The window has been zeroed.
  std::function<void(const View&)> installed;
  /// Called when this process is no longer a member, because it has left or the others have removed it. The
  /// view is the first one without this process. If the cause is that memory has run out here, the view is
  /// the last one with this process, and the others remove this process soon. This is the last upcall. To
  /// become a member again, join again.
  std::function<void(const View&)> removed;
  /// Called when a message of broadcast() has arrived. `bytes` is valid only during the upcall.
  std::function<void(MemberId from, std::span<const std::byte> bytes)> delivered;
  /// Called when the store cannot be reached. The present view stays, and cannot change until store_found()
  /// is called. If no view is installed yet, the process keeps trying to join.
  std::function<void(const Error& cause)> store_lost;
  /// Called when the store can be reached again.
  std::function<void()> store_found;
  /// Called at most once, when the store node that this process runs has ended. There are three causes: its
  /// disk has refused a write, memory has run out (resource_limit), or an operator's command has removed it
  /// from the store (cancelled). The membership goes on. But the store may not survive another failure until
  /// a process starts this node again.
  std::function<void(const Error& cause)> store_node_ended;
  /// Called when the member link to a member has become bad. The application decides how to go on without
  /// that member. Later, either reachable() is called for the member, or a view without the member is
  /// installed.
  std::function<void(const UnreachableMember&)> unreachable;
  /// Called when the member link to this member is good again.
  std::function<void(MemberId member)> reachable;
  /// Called once after each installed(), when the leases in all views before that of `epoch` have ended. From
  /// then on, no process serves in an earlier view.
  std::function<void(Epoch epoch)> earlier_leases_over;
  /// Called when this process begins to hold its lease, and when it stops holding it. See holds_lease().
  std::function<void()> lease_gained;
  std::function<void()> lease_lost;
  /// Called when a process that holds the key cannot take part together with this process. The cause is
  /// authentication if only one of the two processes encrypts. It is not_found if the other process is in
  /// another named group.
  std::function<void(const Address& process, const Error& cause)> refused;
};

/// The counters of a membership. They only increase.
struct MembershipCounters {
  std::uint64_t installed = 0;          ///< views installed
  std::uint64_t delivered = 0;          ///< messages of broadcast() that were delivered here
  std::uint64_t fenced = 0;             ///< messages ignored because they are of another epoch, usually of an
                                        ///< earlier epoch
  std::uint64_t dropped = 0;            ///< messages that were lost because there was no space for them
  std::uint64_t deaths_seen = 0;        ///< deaths of processes that the operating system has shown
  std::uint64_t paths_failed = 0;       ///< queue pairs that failed
  std::uint64_t unreachable = 0;        ///< calls of unreachable()
  std::uint64_t refused = 0;            ///< calls of refused()
  std::uint64_t store_failures = 0;     ///< requests that the store did not answer, or answered wrongly
  std::uint64_t store_nodes_ended = 0;  ///< store nodes of this process that have ended
};

/// The state of a group of a membership: its members, and its root.
struct GroupView {
  std::uint64_t epoch = 0;          ///< the epoch of the group, which increases with every change
  std::vector<MemberId> members{};  ///< in the order of the view
  MemberId root{};
  std::uint64_t next = 0;  ///< the number of the next message
};

struct MemberGroupOptions {
  /// Set only algorithm, block_bytes, small_bytes and receive_timeout. Leave all other options at their
  /// defaults; the library sets can_continue, joins and epoch. algorithm, block_bytes and small_bytes must be
  /// the same at every member. If a member has other values, its upcall `ended` is called with
  /// invalid_argument.
  GroupOptions group{};
  /// The group begins when this number of members of the view have made it and are connected with each other.
  /// If members give different numbers, the highest number counts. Members that make the group later join it.
  /// A process that dies before the group begins does not count any more. If too few members are left, the
  /// group does not begin until another process has joined the view and made the group. Until then, send()
  /// returns would_block. An application that must begin without a missing process gives a lower number.
  std::size_t first_members = 1;
  /// Returns the root for a view. Every member calls it on the control loop, for each view that is installed
  /// and when it makes the group. The library uses only the result of the oldest member of the group. If that
  /// result is a member of the group, it becomes the root.
  /// If that result is no member of the group, or if `root` is empty, these rules determine the root:
  ///   1. The first root is the oldest member of the group.
  ///   2. The root stays the root as long as it is in the group, unless change_root() is called.
  ///   3. When the root is gone, the oldest remaining member becomes the root.
  std::function<MemberId(const View&)> root{};
};

/// The upcalls of a group. The first five have the same meaning as in GroupCallbacks. Any of them may be
/// empty. The numbering of messages continues across all changes. The root gets no `delivered` for its own
/// messages. Both the root and a receiver may use the memory of a message again after `reusable`. They may
/// use all memory again after `ended`, or when the group has closed. `continued` has the table of the memory
/// after a change.
struct MemberGroupCallbacks {
  std::function<std::optional<std::span<std::byte>>(std::uint64_t message, std::uint64_t bytes)> incoming;
  std::function<void(std::uint64_t message, std::span<std::byte> bytes)> delivered;
  std::function<void(std::uint64_t message)> reusable;
  std::function<void(std::uint64_t count)> stable;
  std::function<void(std::optional<MemberId> member, std::uint64_t message)> held_up;
  /// Called at the root with a note of tell_root(). `note` is valid only during the upcall.
  std::function<void(MemberId from, std::span<const std::byte> note)> told;
  /// Called when this member's node has found that a member failed. `continued` or `ended` follows.
  /// `interrupted` may be called again before that. In the meantime send() returns would_block. Messages that
  /// the survivors save are still delivered in this time: `incoming`, `delivered`, `stable` and `reusable`
  /// may be called for messages below the `next` of `continued`. If the view without the failed member is
  /// installed before the node finds the failure, `interrupted` is not called.
  std::function<void(const Error& cause)> interrupted;
  /// Called when the group begins or goes on. Every member has the messages below `next`. A member that has
  /// joined gets the messages from `next` on. A root that stays the root still sends the messages that it had
  /// queued. If the root becomes a receiver, the messages that it had queued are among those below `next`.
  /// All other messages from `next` on that had begun are cancelled.
  /// When the application may use the memory of a message again after `continued`:
  ///   memory of                                 below `next`             from `next` on
  ///   send(), root that stays the root          at `reusable`            at `reusable`: it is still sent
  ///   send(), root that becomes a receiver      at `reusable`            no such message exists
  ///   `incoming`                                at `reusable`            at `continued`
  ///   post_receive_buffer(), used by a message  at `reusable`            the group keeps the buffer
  ///   post_receive_buffer(), not used yet       the group keeps the buffer for a later message
  /// `reusable` is called for all messages below `next` before `continued` is called. It is not called for
  /// messages from `next` on that are cancelled.
  std::function<void(const GroupView&)> continued;
  /// These two are called on the control loop, as the upcalls of the membership with the same names are. They
  /// are also called with the present values when the group is made.
  std::function<void(const View& view)> installed;
  std::function<void(Epoch epoch)> earlier_leases_over;
  /// Called when the group has ended at this member. This is the last upcall. The cause is cancelled if the
  /// membership has ended. Otherwise it is the reason why this member cannot take part any longer. The other
  /// members go on without this member. If the group has not begun here, this upcall runs on the control
  /// loop, possibly before create_group() returns.
  std::function<void(const Error& cause)> ended;
};

/// One member's part in a group of a membership. The library connects the members and continues the group
/// after every change. If two members of a view do not reach each other, the group goes on without one of
/// them after some seconds. If the oldest member of the view receives nothing from one of the two, the group
/// leaves out that member. Otherwise it leaves out the younger of the two. The part of the member that is
/// left out ends with peer_failed as soon as the member can be informed, and is interrupted until then. After
/// that, the member may make the group again.
class MemberGroup {
 public:
  /// Leaves the group at once. The other members go on. Must not be called in an upcall.
  ~MemberGroup();
  MemberGroup(const MemberGroup&) = delete;
  MemberGroup& operator=(const MemberGroup&) = delete;

  /// Root only: sends `bytes` as Node::send does, and returns the number of the message. If this process dies
  /// after the call, the message may be lost. The upcall `stable` reports which messages all other members
  /// have. GroupView::next is the number with which a new root goes on. Errors: invalid_argument if this
  /// member is not the root or the message is too long; would_block if the group has not begun or is being
  /// continued (try again at `continued`), if the queue is full (try again at `reusable` or `stable`), or if
  /// another member is about to become the root; cancelled if the group has ended or is being closed.
  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  /// True while `epoch` is the newest epoch of the group that this member knows, and it is open here. As soon
  /// as the next epoch is prepared, this is false. Any thread may call this function; it costs some
  /// nanoseconds.
  bool is_open(std::uint64_t epoch) const;
  /// True while is_open(epoch) and this member is the root. If all members of the present epoch take part in
  /// the next one, this is false here before another member can become the root. A member that the others
  /// have left out may not know it: only a lease protects against that.
  bool leads(std::uint64_t epoch) const;
  /// Returns the other members of the view that have made this group and are connected with this member, in
  /// no particular order. The group begins when `first_members` members are all connected with each other. So
  /// this member waits for the members of view() that are missing in the result. If the group has not begun
  /// although no member is missing, two other members are not connected with each other yet. Waits for the
  /// fabric thread, so the caller must not hold a lock that an upcall takes.
  std::vector<MemberId> connected() const;
  /// Receiver only: gives memory for a message, as Node::post_receive_buffer does. Errors: invalid_argument
  /// if this member is the root; all other errors are those of send().
  Result<void> post_receive_buffer(std::span<std::byte> buffer);
  /// Sends a note to the root. See Node::tell_root(). A note that has not arrived when the group is continued
  /// is lost, so after `continued` the application sends it again. Errors: invalid_argument if the note is
  /// longer than kMostNote; would_block if the group has not begun or is being continued; cancelled if the
  /// group has ended or is being closed.
  Result<void> tell_root(std::span<const std::byte> note);
  /// Makes another member the root, although no member has failed. Any member may call this function. If
  /// there are several calls, the last one that arrives counts. Soon after the call, send() at the present
  /// root returns would_block. All messages that send() has accepted are delivered before the change, however
  /// long a receiver takes. `continued` reports the change. If `member` is not in the group when the change
  /// begins, nothing happens and no error is reported. Errors: invalid_argument if the option `root` is set,
  /// cancelled if the group has ended.
  Result<void> change_root(MemberId member);
  /// Leaves the group soon, without waiting. The upcall `ended` follows, with `cause`. The other members go
  /// on.
  void leave(const Error& cause);
  /// Closes the group together with all other members. `closed` is called with success when all members of
  /// the group have called close() and have all messages. If that is not possible, `closed` is called with
  /// the error. `closed` may be called before close() returns. After success, it is the last upcall, and the
  /// group may be destroyed. After an error, `ended` follows. If a member is lost while the store cannot be
  /// reached, closing waits for the store. Errors: cancelled if close() was called before or the group has
  /// ended.
  Result<void> close(std::function<void(Result<void>)> closed);

 private:
  friend class Membership;
  class Impl;
  explicit MemberGroup(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

class Membership {
 public:
  /// The maximum number of bytes in one call of broadcast() or write().
  static constexpr std::size_t kMostBytes = 4000;

  /// Begins to join the named group, or to form it if it has no members. The upcall installed() reports
  /// success. Until then, the process keeps trying, unless the membership is destroyed. Errors:
  /// invalid_argument if the options are not valid, already_exists if this Context already takes part in the
  /// named group, and the errors of reading the key, listening, opening the fabric and starting the store
  /// node.
  static Result<std::unique_ptr<Membership>> join(const MembershipOptions& options,
                                                  MembershipCallbacks callbacks);
  /// Ends the membership and its groups. The other members see this as the death of the process, unless
  /// leave() or removed() was called before.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// The member id of this process.
  MemberId id() const;
  /// The address at which the other members reach this process.
  const Address& address() const;
  /// The newest view that is installed here.
  View view() const;

  /// Sends a message of at most kMostBytes to all other members of the view. The message is sent soon after
  /// the call, in the view that is installed at that time. It may be lost. It is delivered in no other view.
  /// Errors: invalid_argument if the message is too long, cancelled if this process is not a member.
  Result<void> broadcast(std::span<const std::byte> bytes);
  /// Writes `bytes`, soon after the call, into the windows of all other members that have given this process
  /// a window grant. `offset` is the first byte that is written. At most kMostBytes are written. Errors:
  /// invalid_argument if the range exceeds the window or kMostBytes, cancelled if this process is not a
  /// member.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the window of this process. Other members may write into it at any moment. It is zeroed before
  /// each installed().
  std::span<const std::byte> window() const;

  /// Removes a member on the command of an operator. `done` runs on the control loop, when the removal has
  /// begun or has been refused. When `done` is called with success, the removal may still be in progress.
  /// Errors: not_found if there is no such member, peer_failed if the store cannot be reached,
  /// invalid_argument if this process is not a member, cancelled if the membership has ended.
  void remove(MemberId member, std::function<void(Result<void>)> done = {});
  /// Leaves the named group in order. Call it as follows:
  ///   1. Call leave(). It returns at once.
  ///   2. Wait for the upcall removed(). It is called when the other members have agreed, or at once if no
  ///      view is installed yet. Leaving changes the view in the store. So leaving waits while the store
  ///      cannot be reached. A store of three nodes can be reached while at least two of them run.
  ///   3. If this process runs a store node, wait until the other members have left, too. The store node
  ///      runs until the membership is destroyed, and the others need it to leave. If there is only one store
  ///      node, the process that runs it must destroy its membership last.
  ///   4. Destroy the membership, but not in an upcall.
  /// An application that does not want to wait destroys the membership without leave(). The others then see
  /// the death of a member.
  void leave();

  /// Returns true while this process holds its lease in the view of `epoch`. As long as it does, no process
  /// serves in a later view. To answer a request, first read the value, then call this function, and then
  /// send the answer. The process may have been stopped after it read the value, so a call before reading is
  /// not enough.
  bool holds_lease(Epoch epoch) const;

  /// Returns the counters. The call waits for the control loop, so it must not be made in an upcall of a
  /// group or of an endpoint.
  MembershipCounters counters() const;

  /// Makes this process's part in the group with this number. All members that make the group with the same
  /// options are in it. The first members begin the group, and later ones join it. When a member joins, the
  /// earlier members need to do nothing. Errors: already_exists if this process has made this group;
  /// invalid_argument if `options` set racks, read_only or epoch, or if an upcall of a group calls this;
  /// cancelled if the membership has ended; resource_limit if there are 64 groups already; and the errors of
  /// Node::create.
  Result<std::unique_ptr<MemberGroup>> create_group(GroupNumber number, const MemberGroupOptions& options,
                                                    MemberGroupCallbacks callbacks);

 private:
  class Impl;
  explicit Membership(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc
