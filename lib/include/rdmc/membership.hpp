// Views: who belongs to a named group of processes now, agreed by all of them. Every change makes a new view
// with the next epoch. What a process sends after it has been removed has no effect at members that have
// installed the view without it. On top of views: groups (rdmc/group.hpp) that go on by themselves when a
// member dies, leaves or joins, and when another member is to be the root. controlplane/view/README.md tells
// how views are agreed.
//
// Any thread may call anything, except where a function says otherwise. Upcalls of a membership come on the
// control loop of its Context, one at a time; they must not block, and must not destroy the membership.
// Upcalls of a group come on its fabric thread, one at a time. They must not block either: the control loop
// waits for the fabric thread now and then. So an upcall of a group, or of an endpoint (rdmc/unicast.hpp),
// must not make a membership or a group, end one, or ask for counters(). An upcall of a membership must not
// wait for a connection of an endpoint (Endpoint::connect() without an upcall).
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

/// One life of one process in one membership: random, and never used again.
enum class MemberId : std::uint64_t {};

struct Member {
  MemberId id{};
  std::string name;  ///< for people
  Address address;   ///< where it takes control connections
  Epoch since{};     ///< the first view that it is in

  friend bool operator==(const Member&, const Member&) = default;
};

/// Epoch 0, without members: this process has been in no view yet.
struct View {
  Epoch epoch{};
  std::vector<Member> members{};  ///< oldest first

  /// Null: it is no member.
  const Member* find(MemberId id) const;
  friend bool operator==(const View&, const View&) = default;
};

/// Where views are agreed: in the nodes of an embedded store or in etcd, one of the two.
struct ViewStoreOptions {
  /// The addresses of the embedded store's nodes, one or three, in the same order in every process. A node is
  /// a process `rdmc_control serve` (port 7701 if none is given), or runs inside a member: see `runs`. It has
  /// a port of its own, not that of a member.
  std::vector<Address> nodes{};
  /// This process runs the node with this index; without it, the process only asks the nodes. When three
  /// nodes start for the first time, the store serves, and processes can join, as soon as all three are up.
  std::optional<std::size_t> runs{};
  /// The folder in which the node that this process runs keeps its state; empty: it keeps it in memory.
  std::string directory{};
  /// Client addresses of etcd's members.
  std::vector<Address> etcd{};
};

struct MembershipOptions {
  std::string group{};  ///< 1 to 249 bytes
  std::string name{};   ///< of this process, for people
  /// Where the others reach this process; port 0: any.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  ViewStoreOptions store{};
  /// With a key file, certificates, or insecure: one of the three, as in MeshOptions.
  std::string key_file{};
  Certificates certificates{};
  bool insecure = false;
  std::string fabric = "auto";         ///< as NodeOptions::fabric
  std::string device{};                ///< as NodeOptions::device
  std::uint32_t window_bytes = 4096;   ///< see Membership::write
  bool encrypt = false;                ///< as NodeOptions::encrypt, at every member alike
  Duration lease{};                    ///< the term of the lease that it asks for, 20 ms to 1 s; 0: none
  std::shared_ptr<Context> context{};  ///< null: that of the process
};

/// For the processes of a job: the first three, or the first one of fewer than three, run the store's nodes
/// in memory, at the ports that connect_mesh() uses. So do not call connect_mesh() at the same time; and
/// the views can change as long as two of those three live. `job` is the group's name. Errors: not_found (a
/// name that has no address), invalid_argument (no such name of a group).
Result<MembershipOptions> membership_options(const LaunchedJob& job);

/// The link to a member is bad although most others reach it.
struct UnreachableMember {
  MemberId member{};
  bool is_heard = false;  ///< what it says arrives here
  bool hears_us = false;  ///< what we say arrives there
};

/// Any may be empty.
struct MembershipCallbacks {
  /// The view is agreed. Nothing of an earlier epoch has any effect here any more, and the window is zeroed.
  std::function<void(const View&)> installed;
  /// This process is no member any more: it has left, or the others have removed it. The view is the one
  /// without this process. Or memory has run out here: then the view is the last one, with this process, and
  /// the others remove it soon. This is the last upcall. To come back, join again.
  std::function<void(const View&)> removed;
  /// A message of broadcast().
  std::function<void(MemberId from, std::span<const std::byte> bytes)> delivered;
  /// The view goes on, and cannot change until store_found(). Before the first view: joining goes on trying.
  std::function<void(const Error& cause)> store_lost;
  std::function<void()> store_found;
  /// The store's node that this process runs takes part in nothing any more: its disk has refused a write, it
  /// has run out of memory (resource_limit), or its place was given to another node (cancelled). Called once.
  /// The membership goes on; but the store may bear no further loss until a process with this node begins
  /// anew.
  std::function<void(const Error& cause)> store_node_ended;
  /// The application decides what to do without that member. `reachable` or a view without it follows.
  std::function<void(const UnreachableMember&)> unreachable;
  std::function<void(MemberId member)> reachable;
  /// No process serves in an earlier view than that of `epoch` any more. It follows each `installed`.
  std::function<void(Epoch epoch)> earlier_leases_over;
  std::function<void()> lease_gained;
  std::function<void()> lease_lost;
  /// A process that holds the key cannot be talked to: it encrypts and we do not, or the other way round
  /// (authentication), or it is in another group (not_found).
  std::function<void(const Address& process, const Error& cause)> refused;
};

/// They only rise.
struct MembershipCounters {
  std::uint64_t installed = 0;          ///< views
  std::uint64_t delivered = 0;          ///< messages of broadcast()
  std::uint64_t fenced = 0;             ///< messages of another epoch, as a rule one that was over
  std::uint64_t dropped = 0;            ///< messages for which there was no room
  std::uint64_t deaths_seen = 0;        ///< exits that the operating system told of
  std::uint64_t paths_failed = 0;       ///< queue pairs that gave up
  std::uint64_t unreachable = 0;        ///< bad links that were told of
  std::uint64_t refused = 0;            ///< processes that cannot be talked to, each time that it was found
  std::uint64_t store_failures = 0;     ///< questions that the store did not answer, or not as it should
  std::uint64_t store_nodes_ended = 0;  ///< as store_node_ended tells
};

/// How a group of a membership stands: its members, and which of them sends.
struct GroupView {
  std::uint64_t epoch = 0;          ///< of the group: it rises with every change
  std::vector<MemberId> members{};  ///< in the order of the view
  MemberId root{};
  std::uint64_t next = 0;  ///< the number of the next message
};

struct MemberGroupOptions {
  /// The group takes algorithm, block_bytes, small_bytes and receive_timeout. The first three are the same at
  /// every member: one that chose other values gets `ended` with invalid_argument. Leave all others as they
  /// are: the library itself sets can_continue, joins and epoch.
  GroupOptions group{};
  /// The group begins when so many members have made it. Members that make it later join it.
  std::size_t first_members = 1;
  /// The root that a view asks for; called on the control loop. The answer of the oldest member of the view
  /// that is in the group counts, if it names a member of the group. Empty: the oldest member of the group
  /// begins as the root, and stays it until it is gone or change_root() is called. When it is gone, the
  /// oldest one that is left follows.
  std::function<MemberId(const View&)> root{};
};

/// Upcalls, as those of GroupCallbacks; any may be empty. Numbers of messages go on across all changes. A
/// root gets no `delivered` for its own messages. The memory of a message, the root's as well as a
/// receiver's, is the application's again at `reusable`, and all of it after `ended` or when the group has
/// closed.
struct MemberGroupCallbacks {
  std::function<std::optional<std::span<std::byte>>(std::uint64_t message, std::uint64_t bytes)> incoming;
  std::function<void(std::uint64_t message, std::span<std::byte> bytes)> delivered;
  std::function<void(std::uint64_t message)> reusable;
  std::function<void(std::uint64_t count)> stable;
  std::function<void(std::optional<MemberId> member, std::uint64_t message)> held_up;
  /// The node has found that a member failed, and messages stand still. `continued` or `ended` follows, or
  /// this once more. Where the view without that member comes first, there is only `continued`.
  std::function<void(const Error& cause)> interrupted;
  /// The group begins, or goes on: every member has the messages below `next`. A member
  /// that has joined gets the messages from `next` on. Messages from `next` on that had begun are cancelled;
  /// their memory is the application's.
  std::function<void(const GroupView&)> continued;
  /// The end of the group here, and the last upcall: the membership is over (cancelled), or this member
  /// cannot take part any more and says why. The others go on without it. It comes on the control loop when
  /// the group has not begun here, perhaps before create_group() has returned.
  std::function<void(const Error& cause)> ended;
};

/// One member's part in a group of a membership. The library connects the members, and continues the group
/// after every change. Two members of one view may not reach each other: after some seconds the group goes on
/// without the younger of the two, or without the one that the oldest member of the view does not hear. Its
/// part ends (peer_failed) as soon as it can be told, and stays interrupted until then; it may make the group
/// again.
class MemberGroup {
 public:
  /// Leaves the group at once; the others go on. Not in an upcall.
  ~MemberGroup();
  MemberGroup(const MemberGroup&) = delete;
  MemberGroup& operator=(const MemberGroup&) = delete;

  /// Root: as Node::send. That it is accepted is no promise to outlive this process: what all others have
  /// is told by `stable`, and where a new root goes on by GroupView::next. Errors: invalid_argument (not the
  /// root; too long), would_block (the group has not begun, or is being continued: try again at `continued`;
  /// the queue is full: at `reusable` or `stable`; or another member is to be the root), cancelled (the group
  /// is over or being closed).
  Result<std::uint64_t> send(std::span<const std::byte> bytes);
  /// The other members of the view that have made this group and are connected with this one, in no order.
  /// The group begins when `first_members` are all connected with each other. So a member waits for those of
  /// its view() who are missing here; where nobody is missing, two others are not connected with each other
  /// yet. Waits for the fabric thread, so a caller holds no lock that an upcall takes.
  std::vector<MemberId> connected() const;
  /// Receiver: as Node::post_receive_buffer. Errors: those of send().
  Result<void> post_receive_buffer(std::span<std::byte> buffer);
  /// Another member becomes the root, although nobody has died. Soon after, the root's send() says
  /// would_block; what it has accepted is delivered before the change, however long a receiver takes.
  /// `continued` says when the root has changed. Any member may call this; of several calls at a time the
  /// last that arrives stands. If that member is not in the group when the change begins, nothing happens,
  /// and no error is reported. Errors: invalid_argument (the option `root` chooses), cancelled
  /// (the group is over).
  Result<void> change_root(MemberId member);
  /// `closed` is called when all members of the group have called this and have all messages, or with why
  /// that cannot be; it may be called before this returns. On success it is the last upcall, and the group
  /// may be destroyed; with an error, `ended` follows. Without a store that is reached, a group that has lost
  /// a member waits. Errors: cancelled (called before, or the group is over).
  Result<void> close(std::function<void(Result<void>)> closed);

 private:
  friend class Membership;
  class Impl;
  explicit MemberGroup(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

class Membership {
 public:
  /// The longest message of broadcast().
  static constexpr std::size_t kMostBytes = 4000;

  /// Begins to join the group, or to form it if nobody is there; installed() says when it is done. It tries
  /// until it is, or the membership is destroyed. Errors:
  /// invalid_argument (options that make no sense), already_exists (this Context takes part in that group),
  /// those of the key, of listening, of opening the fabric and of the store's node.
  static Result<std::unique_ptr<Membership>> join(const MembershipOptions& options,
                                                  MembershipCallbacks callbacks);
  /// Its groups end. If it is destroyed without leave() and before removed(), the others see a death.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  MemberId id() const;
  /// Where the others reach this process.
  const Address& address() const;
  /// The newest that is installed here.
  View view() const;

  /// Sends to all other members of the view that is installed at the moment of sending, which comes soon. The
  /// message may be lost, and arrives in no other view. Errors: invalid_argument (too long), cancelled (we
  /// are no member).
  Result<void> broadcast(std::span<const std::byte> bytes);
  /// Writes into the windows of all other members that have granted us access, soon; at most kMostBytes.
  /// Errors: the same; invalid_argument beyond the window.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Ours: others write here at any moment. It is zeroed before each `installed`.
  std::span<const std::byte> window() const;

  /// An operator's wish. `done`, on the control loop, is told whether it is under way, and not that it has
  /// happened. Errors: not_found, peer_failed (the store cannot be reached), invalid_argument (we are no
  /// member), cancelled (the membership is over).
  void remove(MemberId member, std::function<void(Result<void>)> done = {});
  /// removed() follows when the others have agreed; not while the store cannot be reached. Before the first
  /// view it follows at once. The view is changed in the store, which needs two of three nodes. A node that
  /// this process runs goes on until the membership is destroyed: so the application destroys it when the
  /// others have left, and where there is only one node, the process that runs it last. Whoever does not want
  /// to wait destroys the membership without leave(); the others see a death.
  void leave();

  /// True while this process may serve what it owns in the view of `epoch`. Call it after reading a value and
  /// before sending the answer: the process may have been stopped in between.
  bool holds_lease(Epoch epoch) const;

  /// Waits for the control loop: not in an upcall of a group.
  MembershipCounters counters() const;

  /// This process's part in the group of this number. All members that make it with the same options are in
  /// it: the first ones begin it, later ones join, and nobody else needs to do anything. Errors:
  /// already_exists (this process has made it), invalid_argument (options that make no sense: racks,
  /// read_only, an epoch; an upcall of a group is what calls), cancelled (the membership is over),
  /// resource_limit (more than 64 groups), those of Node::create.
  Result<std::unique_ptr<MemberGroup>> create_group(GroupNumber number, const MemberGroupOptions& options,
                                                    MemberGroupCallbacks callbacks);

 private:
  class Impl;
  explicit Membership(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc
