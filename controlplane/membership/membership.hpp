// A process's part in a named group. It contains the failure view (controlplane/view) with a store, control
// connections to the other members, heartbeats and small messages of the application over the data path, and
// the fence. It runs on a control loop. The data path of the process has a thread of its own. After a process
// has left the view, nothing that it sends has any effect: its queue pairs are destroyed, the keys of the
// memory that it could write are revoked, and its messages belong to an epoch that has ended.
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
  std::string name;  ///< The name that people see.
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
  /// The term of the lease that this member asks for, from view::kMinLease to view::kMaxLease. Intended
  /// values are 100 to 200 ms. 0 means that it asks for none. Then holds_lease() is never true.
  Duration lease{};
  view::Timing timing{};
  /// The context whose fabric thread the data path uses. Null means the context of the process.
  std::shared_ptr<peer::Context> context = nullptr;
};

/// Called on the control loop. Each upcall may be empty. An upcall must not destroy the membership.
struct Upcalls {
  /// The view is agreed, and the epochs before it are fenced: the membership window contains only zeroes.
  std::function<void(const view::View&)> installed;
  /// The last upcall. Either the argument is an agreed view without this process. Or this process has run out
  /// of memory, and the argument is its newest view, which may contain this process.
  std::function<void(const view::View&)> removed;
  /// A member has sent these bytes in the installed epoch.
  std::function<void(view::MemberId from, std::span<const std::byte> bytes)> delivered;
  std::function<void(const Error& cause)> store_lost;
  std::function<void()> store_found;
  /// The link to a member that stays in the view is bad. view::Unreachable tells in which direction. The
  /// application decides what to do without the link. `reachable` follows when the link is good again, or a
  /// view without the member is installed.
  std::function<void(const view::Unreachable&)> unreachable;
  std::function<void(view::MemberId member)> reachable;
  /// Changes of the leases. holds_lease() tells the state at any time. `earlier_leases_over` follows each
  /// `installed`. It tells that no process serves in an earlier view than that of `epoch` any more.
  std::function<void(Epoch epoch)> earlier_leases_over;
  std::function<void()> lease_gained;
  std::function<void()> lease_lost;
  /// The store has accepted the view that this process has proposed.
  std::function<void(const view::View&)> agreed;
  /// This process cannot communicate with a process that has proved the key. The cause is authentication if
  /// only one of the two encrypts; both get this upcall. The cause is not_found if the process takes part in
  /// another group; only the side that has dialed gets this upcall. The upcall comes again
  /// when a later attempt fails.
  std::function<void(const Address& process, const Error& cause)> refused;
};

/// All counters only grow.
struct Counters {
  std::uint64_t delivered = 0;
  /// Messages that were dropped, because their sender or their epoch is not admitted, or because too many
  /// messages of the next epoch wait.
  std::uint64_t fenced = 0;
  /// Links on which the other process has greeted this one.
  std::uint64_t connected = 0;
  std::uint64_t paths_failed = 0;
  /// Views that were installed.
  std::uint64_t installed = 0;
  /// Control connections that were refused, see Listener.
  std::uint64_t refused = 0;
  /// Links that ended for one of the reasons of Upcalls::refused.
  std::uint64_t mismatched = 0;
  /// Deaths of processes that the operating system has shown.
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
  /// The largest number of links to other processes, members or not. One more link ends the oldest link to a
  /// process that is no member.
  static constexpr std::size_t kMostLinks = 2 * view::kMaxMembers;

  /// Begins to join the group, or to form it. The other processes are those that `peers` can reach. `store`
  /// must use the control loop of `peers`, and must outlive the membership. Errors: invalid_argument if no
  /// view can hold the name or the lease, if no group can have the name of the group, or if `encrypt` is set
  /// and `peers` is Insecure; already_exists if this process takes part in the group already; resource_limit
  /// if there is no memory; the errors of listening and of opening the fabric.
  static Result<std::unique_ptr<Membership>> join(std::shared_ptr<peer::Peers> peers, view::ViewStore& store,
                                                  const MembershipOptions& options, Upcalls upcalls);
  /// May be called on any thread except the fabric thread. For the others, this looks like the death of the
  /// process, unless leave() was called before.
  ~Membership();

  // The following functions must be called on the control loop.

  /// Sends the bytes to all other members, in the installed epoch. A message may be lost, and it is never
  /// delivered in another epoch. Errors: invalid_argument if it is too long, cancelled if this process is no
  /// member.
  Result<void> broadcast(std::span<const std::byte> bytes);
  /// Writes into the membership window of every other member that has given a window grant in this epoch.
  /// Errors: invalid_argument if the range is outside the window or too long, cancelled if this process is no
  /// member.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the membership window of this process.
  std::span<const std::byte> window() const;
  /// Removes a member on the word of an operator. Errors: those of FailureView::remove.
  Result<void> remove(view::MemberId member);
  void leave();

  /// True if this process may serve now what the view of `epoch` gives to it. Then it has installed this
  /// view, no process serves in an earlier view any more, and none serves in a later view before the lease of
  /// this process ends. May be called on any thread. It must be called after a value is read and before the
  /// answer is sent, because the process may have been stopped in between.
  bool holds_lease(Epoch epoch) const;

  const view::FailureView& view() const;
  Counters counters() const;
  /// The name of the fabric of the data path, and the reason for this choice.
  const std::string& fabric() const;
  const std::string& fabric_reason() const;

 private:
  class Impl;
  explicit Membership(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::membership
