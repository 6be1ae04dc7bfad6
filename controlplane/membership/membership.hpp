// A process's part in a named group. It contains the failure view (controlplane/view) with a store, the
// control connections to the other members, and the fence. It sends heartbeats and small messages of the
// application over the data path. It runs on a control loop. The data path runs on a thread of its own. After
// a process has left the view, nothing that it sends has any effect: its queue pairs are destroyed, the keys
// of the memory that it could write are revoked, and its messages belong to an epoch that has ended.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "controlplane/membership/data_path.hpp"
#include "controlplane/peer/peers.hpp"
#include "controlplane/view/failure_view.hpp"
#include "controlplane/view/view_store.hpp"

namespace rdmc::membership {

struct MembershipOptions {
  std::string group;
  std::string name;  ///< The name of the member, for people.
  /// The address of the control listener. The IP address must be a specific one. Port 0 means any port. The
  /// data path uses the same IP address.
  Address listen;
  std::string fabric = "auto";  ///< The fabric, as open_fabric() takes it.
  std::string device = {};      ///< The device, for fabrics that need one (dpdk).
  std::uint32_t window_bytes = 4096;
  /// If true, everything that leaves this host on the data path (heartbeats, messages, writes) is sealed with
  /// AES-256-GCM. Each connection has its own keys, which travel over control connections. Either all members
  /// must set this, or none.
  bool encrypt = false;
  /// The term of the lease that this member asks for, from view::kMinLease to view::kMaxLease. Values of 100
  /// to 200 ms are intended. If the value is 0, the member asks for no lease, and holds_lease() is never
  /// true.
  Duration lease{};
  view::Timing timing{};
  /// The context whose fabric thread the data path uses. Null means the context of the process.
  std::shared_ptr<peer::Context> context = nullptr;
};

/// Called on the control loop. Each function may be empty. An upcall must not destroy the membership.
struct Upcalls {
  /// The view is agreed and now installed. The epochs before it are fenced, so the membership window contains
  /// only zeroes.
  std::function<void(const view::View&)> installed;
  /// The last upcall. Its argument depends on the cause:
  /// - If the members have removed this process, it is the agreed view without this process.
  /// - If this process has run out of memory, it is the newest view of this process, which may contain this
  ///   process.
  std::function<void(const view::View&)> removed;
  /// A member has sent these bytes in the installed epoch.
  std::function<void(view::MemberId from, std::span<const std::byte> bytes)> delivered;
  std::function<void(const Error& cause)> store_lost;
  std::function<void()> store_found;
  /// The link to a member that stays in the view is bad. view::Unreachable has the direction in which the
  /// link is bad. The application decides how it works without the link. `reachable` follows when the link is
  /// good again, or when a view without the member is installed.
  std::function<void(const view::Unreachable&)> unreachable;
  std::function<void(view::MemberId member)> reachable;
  /// The next three functions report changes of the leases. holds_lease() returns the state at any time.
  /// `earlier_leases_over` follows each `installed`. From this call on, no process serves in a view that is
  /// earlier than the view of `epoch`.
  std::function<void(Epoch epoch)> earlier_leases_over;
  std::function<void()> lease_gained;
  std::function<void()> lease_lost;
  /// The store has accepted the view that this process had proposed.
  std::function<void(const view::View&)> agreed;
  /// This process cannot communicate with a process that has proved the key. There are two causes:
  /// - authentication: only one of the two processes encrypts. Each of them gets this upcall.
  /// - not_found: the other process takes part in another group. Only the process that has dialed gets this
  ///   upcall.
  /// The upcall is called again for each later attempt that fails.
  std::function<void(const Address& process, const Error& cause)> refused;
};

/// Each counter only grows.
struct Counters {
  std::uint64_t delivered = 0;
  /// Messages that were dropped because their sender or their epoch is not admitted, or because too many
  /// messages of the next epoch were waiting.
  std::uint64_t fenced = 0;
  /// Links on which the other process has sent its greeting.
  std::uint64_t connected = 0;
  std::uint64_t paths_failed = 0;
  /// Views that were installed.
  std::uint64_t installed = 0;
  /// Control connections that were refused, see Listener.
  std::uint64_t refused = 0;
  /// Links that ended for one of the reasons of Upcalls::refused.
  std::uint64_t mismatched = 0;
  /// Deaths of processes that this process has detected by a pidfd, or by a refused connection at the address
  /// of the dead process.
  std::uint64_t deaths_seen = 0;
  /// Packets that were refused, see DataPath::packets_refused().
  std::uint64_t packets_refused = 0;
  /// Messages that were dropped, see DataPath::dropped().
  std::uint64_t dropped = 0;
  std::uint64_t ended_without_memory = 0;
};

class Membership {
 public:
  /// The largest size of one message of the application.
  static constexpr std::size_t kMostBytes = 4000;
  /// The largest number of links to other processes, members and others. One more link ends the oldest link
  /// to a process that is no member.
  static constexpr std::size_t kMostLinks = 2 * view::kMaxMembers;

  /// Begins to join the group, or to form it. The other processes are those that `peers` can reach. `store`
  /// must use the control loop of `peers`, and must exist longer than the membership.
  /// Errors:
  /// - invalid_argument: a view cannot contain the name of the member or the lease, the name of the group is
  ///   not allowed, or `encrypt` is set and `peers` is Insecure.
  /// - already_exists: this process takes part in the group already.
  /// - resource_limit: there is no memory.
  /// - The errors of listening and of opening the fabric.
  static Result<std::unique_ptr<Membership>> join(std::shared_ptr<peer::Peers> peers, view::ViewStore& store,
                                                  const MembershipOptions& options, Upcalls upcalls);
  /// Ends the membership. If leave() was not called before, the other members see this as the death of this
  /// process. May be called on any thread except the fabric thread.
  ~Membership();

  // The following functions must be called on the control loop.

  /// Sends the bytes to all other members, in the installed epoch. A message may be lost, and it is never
  /// delivered in another epoch. Errors: invalid_argument if there are too many bytes, cancelled if this
  /// process is no member.
  Result<void> broadcast(std::span<const std::byte> bytes);
  /// Writes into the membership window of every other member that has given a window grant in this epoch.
  /// Errors: invalid_argument if the range is outside the window or the bytes are too many, cancelled if this
  /// process is no member.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the membership window of this process.
  std::span<const std::byte> window() const;
  /// Removes a member because an operator states that it is dead. Errors: those of FailureView::remove.
  Result<void> remove(view::MemberId member);
  void leave();

  /// True if this process may now serve what the view of `epoch` assigns to it. If so, this process has
  /// installed this view, no process serves in an earlier view any more, and no process serves in a later
  /// view before the lease of this process ends. May be called on any thread. A thread that serves a value
  /// must call this function after it has read the value and before it sends the answer, because the process
  /// may have been stopped in between.
  bool holds_lease(Epoch epoch) const;

  const view::FailureView& view() const;
  Counters counters() const;
  /// The name of the fabric of the data path, and the reason why this fabric was chosen.
  const std::string& fabric() const;
  const std::string& fabric_reason() const;

 private:
  class Impl;
  explicit Membership(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::membership
