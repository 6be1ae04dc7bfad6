// Leases (Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file cache
// consistency", SOSP 1989), as far as one process knows about them. A member of a view holds a lease while
// every other member of the view has granted it the lease. These other members are its granters. While the
// member holds the lease, no process serves in a later view. Clocks of different processes are never
// compared. The holder counts the term from the time at which it sent the request. A granter counts the term
// from the arrival of the request, and adds the greatest difference that the rates of two clocks can make.
// All times are of a clock that continues while the machine is suspended (CLOCK_BOOTTIME), that never jumps,
// and whose rate has an error of at most kClockDrift. This code does no I/O and reads no clock. Only one
// thread may use it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

/// The times until which other processes may hold leases. These are the leases that this process has granted,
/// and the leases whose end it awaits.
class LeaseGrants {
 public:
  /// Notes that `holder` may hold a lease for the time `remaining` from `now` on, measured on the clock of
  /// `holder`.
  void note(MemberId holder, Duration remaining, Time now);
  /// Notes that `holder` has installed the view of `epoch`, so it serves in no earlier view.
  void has_installed(MemberId holder, Epoch epoch);
  /// Notes that `holder` is certainly dead.
  void forget(MemberId holder) { holders_.erase(holder); }
  void forget_over(Time now);

  /// Returns the time when the last of these leases ends: the leases of processes that have not shown that
  /// they have installed the view of `epoch`. Returns Time{} if there are no such leases.
  Time earlier_over_at(Epoch epoch) const;
  /// Returns the leases that processes outside `view` may still hold.
  std::vector<Held> held_outside(const View& view, Time now) const;
  bool empty() const { return holders_.empty(); }

 private:
  struct Holder {
    Time until{};
    Epoch installed{};
  };
  std::map<MemberId, Holder> holders_;
};

/// The lease of this process, as its holder.
class Lease {
 public:
  explicit Lease(Duration term) : term_(term) {}

  /// Called when the view is installed. Grants of the earlier view stay valid, but no further grants of that
  /// view are accepted.
  void begin_view(const View& view, MemberId self);
  /// Called when the status with the number `sequence` is about to be sent. This status of this process asks
  /// for lease grants.
  void asked(std::uint64_t sequence, Time now);
  void granted(MemberId by, std::uint64_t sequence);
  /// Gives up the lease, whichever grants have been received.
  void end();

  /// Returns the time until which every granter of this view, or every granter of an earlier view, has
  /// granted the lease. If a process is the only member of a view, it grants the lease to itself when it
  /// asks.
  Time granted_until() const;

 private:
  static constexpr std::size_t kMostAsked = 64;  // The number of statuses whose grants may still arrive.

  const Duration term_;
  Time earlier_{};  ///< The end of the lease by the grants of earlier views.
  /// For each granter of this view, the time until which it has granted the lease. Time{} if it has not
  /// granted the lease yet.
  std::map<MemberId, Time> granted_;
  std::deque<std::pair<std::uint64_t, Time>> asked_;
};

}  // namespace rdmc::view
