// A process's part in a group, for real: the failure view (controlplane/view) with a store, control
// connections to the other members, heartbeats and the application's small messages over the data path, and
// the fence. It lives on a control loop, in a process whose data path has a thread of its own. What a process
// that is out of the view sends reaches nobody: its queue pairs are destroyed, the keys to what it could
// write are revoked, and what it still says is of an epoch that is over.
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
  std::string name;  ///< for people
  Address listen;    ///< of the control listener, concrete; port 0: any. The data path has its host
  std::string fabric = "auto";  ///< as open_fabric takes it
  std::string device = {};      ///< for fabrics that need one named (dpdk)
  std::uint32_t window_bytes = 4096;
  /// What leaves this host on the data path - heartbeats, messages, writes - is sealed with AES-256-GCM,
  /// under keys of each connection that travel over control connections. All members do or none.
  bool encrypt = false;
  /// The term of the lease that this member asks for, view::kMinLease to view::kMaxLease; 100 to 200 ms is
  /// meant. 0: it asks for none, and holds_lease() is never true.
  Duration lease{};
  view::Timing timing{};
  /// With whom the data path shares its thread; null: with everything in this process.
  std::shared_ptr<peer::Context> context = nullptr;
};

/// On the loop's thread; any may be empty. They must not destroy the membership.
struct Upcalls {
  /// The view is agreed and the epochs before are fenced off: the window is all zeroes.
  std::function<void(const view::View&)> installed;
  /// Agreed without us; or no memory was left here, and the view is the last one, which may have us. The last
  /// upcall.
  std::function<void(const view::View&)> removed;
  /// Sent by a member in the epoch that is installed.
  std::function<void(view::MemberId from, std::span<const std::byte> bytes)> delivered;
  std::function<void(const Error& cause)> store_lost;
  std::function<void()> store_found;
  /// The link to a member that stays in the view is bad: view::Unreachable says since when and which way. The
  /// application decides what to do without it. `reachable` follows when the link is good again, or a view
  /// without the member is installed.
  std::function<void(const view::Unreachable&)> unreachable;
  std::function<void(view::MemberId member)> reachable;
  /// The leases of this process, which holds_lease() tells at any moment. `earlier_leases_over` follows each
  /// `installed`: no process serves in an earlier view than that of `epoch` any more.
  std::function<void(Epoch epoch)> earlier_leases_over;
  std::function<void()> lease_gained;
  std::function<void()> lease_lost;
  /// The store has agreed to the view that we proposed.
  std::function<void(const view::View&)> agreed;
  /// A process that proved the key cannot be talked to: authentication when one of the two encrypts and the
  /// other does not, which both are told; not_found when it takes part in another group, which is told to who
  /// dialed it. Once in a while again.
  std::function<void(const Address& process, const Error& cause)> refused;
};

/// Monotone.
struct Counters {
  std::uint64_t delivered = 0;
  std::uint64_t fenced = 0;     ///< messages of an epoch that was over, or that we are not to see next
  std::uint64_t connected = 0;  ///< channels to processes that have greeted us
  std::uint64_t paths_failed = 0;
  std::uint64_t installed = 0;        ///< views
  std::uint64_t refused = 0;          ///< control connections, see Listener
  std::uint64_t mismatched = 0;       ///< data paths, see Upcalls::refused
  std::uint64_t deaths_seen = 0;      ///< that the operating system has told of
  std::uint64_t packets_refused = 0;  ///< see DataPath
  std::uint64_t dropped = 0;          ///< messages, see DataPath
  std::uint64_t ended_without_memory = 0;
};

class Membership {
 public:
  /// The most that one message of the application may have.
  static constexpr std::size_t kMostBytes = 4000;
  /// Of processes at a time, members or not: one too many takes the place of the oldest that is no member.
  static constexpr std::size_t kMostLinks = 2 * view::kMaxMembers;

  /// Begins to join, or to form the group, among the processes that `peers` can talk to. `store`, which lives
  /// on the loop of the peers, outlives the membership. Errors: invalid_argument (a name that no view, or no
  /// group, can have; encrypt although the peers are Insecure), already_exists (this process takes part in
  /// that group already), resource_limit (memory), those of listening and of opening the fabric.
  static Result<std::unique_ptr<Membership>> join(std::shared_ptr<peer::Peers> peers, view::ViewStore& store,
                                                  const MembershipOptions& options, Upcalls upcalls);
  /// Any thread but the engine's. To the others it is as if the process had died, unless leave() came first.
  ~Membership();

  // On the loop's thread.

  /// To all other members, in the epoch that is installed. It may be lost, and arrives in no other epoch.
  /// Errors: invalid_argument (too long), cancelled (we are no member).
  Result<void> broadcast(std::span<const std::byte> bytes);
  /// Into every other member's window, as far as they have let us in in this epoch. Errors: the same;
  /// invalid_argument beyond the window.
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Ours.
  std::span<const std::byte> window() const;
  /// Errors: those of FailureView::remove.
  Result<void> remove(view::MemberId member);
  void leave();

  /// Any thread: whether this process may serve, now, what the view of `epoch` gives to it. That is so when
  /// it has installed that view, no process serves in an earlier view any more, and none serves in a later
  /// one before our lease ends. To be called after a value is read and before the answer leaves: the process
  /// may have been stopped in between.
  bool holds_lease(Epoch epoch) const;

  const view::FailureView& view() const;
  Counters counters() const;
  /// The data path's, and why this one.
  const std::string& fabric() const;
  const std::string& fabric_reason() const;

 private:
  class Impl;
  explicit Membership(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::membership
