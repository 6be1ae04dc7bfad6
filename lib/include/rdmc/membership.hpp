// Memberships. A membership is a process's part in a named group of processes. All members agree on the view,
// which is the list of the current members. Every change makes a new view with the next epoch. What a process
// sends after it has been removed has no effect at members that have installed the view without it. A
// membership also offers groups of messages (rdmc/group.hpp). Such a group goes on by itself when a member
// dies, leaves or joins, and when another member becomes the root. controlplane/view/README.md explains how
// members agree on views.
//
// Threads: any thread may call any function, except where a function says otherwise. Upcalls of a membership
// run on the control loop of its Context, one at a time. They must not block, and must not destroy the
// membership. Upcalls of a group run on its fabric thread, one at a time, and must not block either.
//
// The control loop sometimes waits for the fabric thread. So an upcall of a group, or of an endpoint
// (rdmc/unicast.hpp), must not make or end a membership or a group, and must not call counters(). An upcall
// of a membership must not wait for a connection of an endpoint: it may call only the Endpoint::connect()
// that takes an upcall.
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

/// The number of one life of one process in one membership. It is random, and is never used again.
enum class MemberId : std::uint64_t {};

struct Member {
  MemberId id{};
  std::string name;  ///< a description for people
  Address address;   ///< the address at which it accepts control connections
  Epoch since{};     ///< the first view that contains it

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

/// Where views are agreed: in an embedded store or in etcd. Give exactly one of `nodes` and `etcd`.
struct ViewStoreOptions {
  /// The addresses of the one or three nodes of the embedded store, in the same order in every process. A
  /// node is a process `rdmc_control serve` (port 7701 if no port is given), or it runs inside a member (see
  /// `runs`). A node needs a port of its own, different from the member's.
  std::vector<Address> nodes{};
  /// The index of the node that this process runs. Without a value, this process is only a client of the
  /// nodes. When three nodes start for the first time, processes can join as soon as all three nodes are up.
  std::optional<std::size_t> runs{};
  /// The directory where the node of this process keeps its state. If empty, the node keeps its state in
  /// memory.
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
  /// Give exactly one of `key_file`, `certificates` and `insecure`, as in MeshOptions.
  std::string key_file{};
  Certificates certificates{};
  bool insecure = false;               ///< no key and no protection
  std::string fabric = "auto";         ///< as NodeOptions::fabric
  std::string device{};                ///< as NodeOptions::device
  std::uint32_t window_bytes = 4096;   ///< the size of the window, see Membership::write
  bool encrypt = false;                ///< as NodeOptions::encrypt; the same at every member
  Duration lease{};                    ///< the term of this process's lease, 20 ms to 1 s; 0 for no lease
  std::shared_ptr<Context> context{};  ///< if null, the Context of the process
};

/// Returns options for a process of a job. The name of the named group is "job " and the job's name. The
/// first three processes run the nodes of the store, in memory; of fewer than three processes, only the first
/// runs a node. Views can change as long as two of three nodes live. The nodes use the ports that
/// connect_mesh() uses, so connect_mesh() must not run at the same time. Errors: not_found if a host name has
/// no address, invalid_argument if the job's name gives no valid name of a group.
Result<MembershipOptions> membership_options(const LaunchedJob& job);

/// A member that stays in the view although the member link between it and this process is bad.
struct UnreachableMember {
  MemberId member{};
  bool is_heard = false;  ///< what it sends arrives here
  bool hears_us = false;  ///< what this process sends arrives there
};

/// The upcalls of a membership. They run on the control loop. Any of them may be empty.
struct MembershipCallbacks {
  /// A new view is agreed and installed here. From now on nothing from an earlier epoch has any effect here.
  /// The window is zeroed.
  std::function<void(const View&)> installed;
  /// This process is no longer a member, because it has left or the others have removed it. The view is the
  /// first one without this process. If memory has run out here, the view is the last one with this process,
  /// and the others remove it soon. This is the last upcall. To become a member again, join again.
  std::function<void(const View&)> removed;
  /// A message of broadcast() has arrived. `bytes` is valid only during the upcall.
  std::function<void(MemberId from, std::span<const std::byte> bytes)> delivered;
  /// The store cannot be reached. The present view stays, and cannot change before store_found(). If no view
  /// is installed yet, the process keeps trying to join.
  std::function<void(const Error& cause)> store_lost;
  /// The store can be reached again.
  std::function<void()> store_found;
  /// The store node that this process runs has ended. Its disk has refused a write, it has run out of memory
  /// (resource_limit), or it has lost its place in the store by an operator's command (cancelled). Called at
  /// most once. The membership goes on. But the store may not survive another failure until a process starts
  /// this node again.
  std::function<void(const Error& cause)> store_node_ended;
  /// The link to a member has become bad. The application decides how to go on without it. Later, reachable()
  /// is called for the member, or a view without it is installed.
  std::function<void(const UnreachableMember&)> unreachable;
  /// The link to this member is good again.
  std::function<void(MemberId member)> reachable;
  /// No process serves any longer in a view before that of `epoch`. Called once after each installed().
  std::function<void(Epoch epoch)> earlier_leases_over;
  /// This process holds its lease from now on, or does not hold it any longer. See holds_lease().
  std::function<void()> lease_gained;
  std::function<void()> lease_lost;
  /// A process that holds the key cannot take part with this process. authentication: only one of the two
  /// encrypts. not_found: it is in another named group.
  std::function<void(const Address& process, const Error& cause)> refused;
};

/// The counters of a membership. They only increase.
struct MembershipCounters {
  std::uint64_t installed = 0;          ///< views installed
  std::uint64_t delivered = 0;          ///< messages of broadcast() that were delivered here
  std::uint64_t fenced = 0;             ///< messages of another epoch, most of them of an earlier one
  std::uint64_t dropped = 0;            ///< messages lost because there was no space for them
  std::uint64_t deaths_seen = 0;        ///< exits of processes that the operating system reported
  std::uint64_t paths_failed = 0;       ///< queue pairs that failed
  std::uint64_t unreachable = 0;        ///< bad links that were reported by unreachable()
  std::uint64_t refused = 0;            ///< calls of refused()
  std::uint64_t store_failures = 0;     ///< requests that the store did not answer, or answered wrongly
  std::uint64_t store_nodes_ended = 0;  ///< store nodes of this process that have ended
};

/// The state of a group of a membership: its members, and its root.
struct GroupView {
  std::uint64_t epoch = 0;          ///< the epoch of the group; it increases with every change
  std::vector<MemberId> members{};  ///< in the order of the view
  MemberId root{};
  std::uint64_t next = 0;  ///< the number of the next message
};

struct MemberGroupOptions {
  /// Set only algorithm, block_bytes, small_bytes and receive_timeout. Leave the other options as they are;
  /// the library sets can_continue, joins and epoch. The first three must be the same at every member. A
  /// member with other values gets `ended` with invalid_argument.
  GroupOptions group{};
  /// The group begins when this number of members have made it. Members that make it later join it.
  std::size_t first_members = 1;
  /// Chooses the root for a view. It is called on the control loop. The library uses the answer of the oldest
  /// member of the view that is in the group, if that answer names a member of the group. If empty, the
  /// oldest member of the group is the first root. It stays the root until it is gone or change_root() is
  /// called. When it is gone, the oldest remaining member becomes the root.
  std::function<MemberId(const View&)> root{};
};

/// The upcalls of a group, as in GroupCallbacks. Any of them may be empty. The numbering of messages
/// continues across all changes. The root gets no `delivered` for its own messages. Both the root and a
/// receiver may use the memory of a message again after `reusable`. They may use all memory again after
/// `ended`, or when the group has closed.
struct MemberGroupCallbacks {
  std::function<std::optional<std::span<std::byte>>(std::uint64_t message, std::uint64_t bytes)> incoming;
  std::function<void(std::uint64_t message, std::span<std::byte> bytes)> delivered;
  std::function<void(std::uint64_t message)> reusable;
  std::function<void(std::uint64_t count)> stable;
  std::function<void(std::optional<MemberId> member, std::uint64_t message)> held_up;
  /// The node has found that a member failed, and no message moves now. Then `continued`, `ended` or
  /// `interrupted` follows. If the view without that member comes first, only `continued` is called.
  std::function<void(const Error& cause)> interrupted;
  /// The group begins or goes on. Every member has the messages below `next`. A member that has joined gets
  /// the messages from `next` on. Messages from `next` on that had already begun are cancelled, and their
  /// memory is the application's again.
  std::function<void(const GroupView&)> continued;
  /// The group has ended at this member. This is the last upcall. The cause is cancelled if the membership is
  /// over, and otherwise the reason why this member cannot take part any longer. The others go on without it.
  /// If the group has not begun here, this upcall runs on the control loop, possibly before create_group()
  /// returns.
  std::function<void(const Error& cause)> ended;
};

/// One member's part in a group of a membership. The library connects the members and continues the group
/// after every change. If two members of a view do not reach each other, the group goes on without one of
/// them after some seconds. It leaves out the member that the oldest member of the view does not hear, or
/// else the younger of the two. That member's part ends with peer_failed as soon as the member can be
/// informed, and is interrupted until then. The member may then make the group again.
class MemberGroup {
 public:
  /// Leaves the group at once. The others go on. Must not be called in an upcall.
  ~MemberGroup();
  MemberGroup(const MemberGroup&) = delete;
  MemberGroup& operator=(const MemberGroup&) = delete;

  /// Root only. Sends `bytes` as Node::send does, and returns the number of the message. A message may be
  /// lost if this process dies after the call: `stable` reports what all others have, and GroupView::next
  /// where a new root goes on. Errors: invalid_argument if this member is not the root or the message is too
  /// long; would_block if the group has not begun or is being continued (try again at `continued`), if the
  /// queue is full (try again at `reusable` or `stable`), or if another member is about to become the root;
  /// cancelled if the group is over or being closed.
  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  /// Returns the other members of the view that have made this group and are connected with this member, in
  /// no particular order. The group begins when `first_members` members are all connected with each other. So
  /// this member waits for the members of view() that are missing in the result. If none is missing, two
  /// other members are not connected with each other yet. Waits for the fabric thread, so the caller must not
  /// hold a lock that an upcall takes.
  std::vector<MemberId> connected() const;
  /// Receiver only, as Node::post_receive_buffer. Errors: invalid_argument if this member is the root, and
  /// otherwise as for send().
  Result<void> post_receive_buffer(std::span<std::byte> buffer);
  /// Makes another member the root, although no member has failed. Any member may call this; of several
  /// calls, the last one that arrives counts. Soon after the call, send() at the present root returns
  /// would_block. All messages that send() has accepted are delivered before the change, however long a
  /// receiver takes. `continued` reports the change. If `member` is not in the group when the change begins,
  /// nothing happens and no error is reported. Errors: invalid_argument if the option `root` is set,
  /// cancelled if the group is over.
  Result<void> change_root(MemberId member);
  /// Closes the group together with all other members. `closed` is called when all members of the group have
  /// called close() and have all messages, or with the error that prevents this. It may be called before
  /// close() returns. After success it is the last upcall, and the group may be destroyed. After an error,
  /// `ended` follows. If a member is lost while the store cannot be reached, closing waits. Errors: cancelled
  /// if close() was called before or the group is over.
  Result<void> close(std::function<void(Result<void>)> closed);

 private:
  friend class Membership;
  class Impl;
  explicit MemberGroup(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

class Membership {
 public:
  /// The most bytes of one call of broadcast() or write().
  static constexpr std::size_t kMostBytes = 4000;

  /// Begins to join the named group, or to form it if it has no members. installed() reports success. The
  /// process tries until then, or until the membership is destroyed. Errors: invalid_argument if the options
  /// are not valid, already_exists if this Context already takes part in the named group, and the errors of
  /// reading the key, listening, opening the fabric and starting the store node.
  static Result<std::unique_ptr<Membership>> join(const MembershipOptions& options,
                                                  MembershipCallbacks callbacks);
  /// Ends its groups too. The others see the death of a member, unless leave() or removed() came first.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// The member id of this process.
  MemberId id() const;
  /// The address at which the other members reach this process.
  const Address& address() const;
  /// The newest view that is installed here.
  View view() const;

  /// Sends a message of at most kMostBytes to all other members of the view. It is sent soon, in the view
  /// that is installed then. It may be lost, and is delivered in no other view. Errors: invalid_argument if
  /// it is too long, cancelled if this process is not a member.
  Result<void> broadcast(std::span<const std::byte> bytes);
  /// Writes at most kMostBytes, soon, at byte `offset` into the windows of all other members that have given
  /// this process a window grant. Errors: invalid_argument if the range exceeds the window or kMostBytes,
  /// cancelled if this process is not a member.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// The window of this process. Other members may write into it at any moment. It is zeroed before each
  /// installed().
  std::span<const std::byte> window() const;

  /// Removes a member on the word of an operator. `done` runs on the control loop. It reports if the removal
  /// has begun, not that it is complete. Errors: not_found if there is no such member, peer_failed if the
  /// store cannot be reached, invalid_argument if this process is not a member, cancelled if the membership
  /// is over.
  void remove(MemberId member, std::function<void(Result<void>)> done = {});
  /// Leaves the named group in order. removed() follows when the others have agreed, or at once before the
  /// first view. Leaving changes the view in the store, so it waits while the store cannot be reached (two of
  /// three nodes are needed). A store node of this process runs until the membership is destroyed. So destroy
  /// the membership after the others have left. If there is only one node, the process that runs it must
  /// destroy its membership last. An application that does not want to wait destroys the membership without
  /// leave(); the others then see the death of a member.
  void leave();

  /// True while this process may serve what it owns in the view of `epoch`. Call it after reading a value and
  /// before sending the answer, because the process may have been stopped in between.
  bool holds_lease(Epoch epoch) const;

  /// Waits for the control loop, so it must not be called in an upcall of a group.
  MembershipCounters counters() const;

  /// Makes this process's part in the group with this number. All members that make it with the same options
  /// are in it. The first members begin it, and later ones join; the other members need to do nothing.
  /// Errors: already_exists if this process has made this group; invalid_argument if `options` set racks,
  /// read_only or epoch, or if an upcall of a group calls this; cancelled if the membership is over;
  /// resource_limit if there are 64 groups already; and those of Node::create.
  Result<std::unique_ptr<MemberGroup>> create_group(GroupNumber number, const MemberGroupOptions& options,
                                                    MemberGroupCallbacks callbacks);

 private:
  class Impl;
  explicit Membership(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc
