// Leases (Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file cache
// consistency", SOSP 1989), as far as one process knows of them. A member of a view holds a lease while every
// other member of the view (its granters) has granted it one. While it holds the lease, no process serves in
// a later view. No clock is compared with another clock. The holder counts the term from the time at which it
// sent the request. A granter counts from the arrival of the request, and adds the greatest difference that
// the rates of two clocks can make. All times are of a clock that goes on while the machine is suspended
// (CLOCK_BOOTTIME), that never jumps, and whose rate is right within kClockDrift. This code does no I/O and
// reads no clock; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

/// The granter's side: the times until which other processes may hold leases.
class LeaseGrants {
 public:
  /// `holder` may hold a lease for the time `remaining` from `now` on, on a clock of its own.
  void note(MemberId holder, Duration remaining, Time now);
  /// That process has installed the view of `epoch`, so it serves in no earlier view.
  void has_installed(MemberId holder, Epoch epoch);
  /// That process is certainly dead.
  void forget(MemberId holder) { holders_.erase(holder); }
  void forget_over(Time now);

  /// The end of all leases of processes that have not shown that they have installed the view of `epoch`.
  /// Time{} if there are no such leases.
  Time earlier_over_at(Epoch epoch) const;
  /// The leases that processes outside `view` may still hold.
  std::vector<Held> held_outside(const View& view, Time now) const;
  bool empty() const { return holders_.empty(); }

 private:
  struct Holder {
    Time until{};
    Epoch installed{};
  };
  std::map<MemberId, Holder> holders_;
};

/// The holder's side: the lease of this process.
class Lease {
 public:
  explicit Lease(Duration term) : term_(term) {}

  /// Called when the view is installed. The grants in the view before stay valid, but no further grants are
  /// added to them.
  void begin_view(const View& view, MemberId self);
  /// Called when this process's status with that number asks for lease grants and is about to be sent.
  void asked(std::uint64_t sequence, Time now);
  void granted(MemberId by, std::uint64_t sequence);
  /// Gives up the lease, whatever has been granted.
  void end();

  /// The time until which every granter of this view, or of an earlier one, has granted the lease. A process
  /// that is alone in a view grants the lease to itself when it asks.
  Time granted_until() const;

 private:
  static constexpr std::size_t kMostAsked = 64;  // the number of statuses whose grants may still arrive

  const Duration term_;
  Time earlier_{};  ///< The end of the lease by the grants of earlier views.
  /// For each granter of this view, the time until which it has granted the lease. Time{} if it has granted
  /// none yet.
  std::map<MemberId, Time> granted_;
  std::deque<std::pair<std::uint64_t, Time>> asked_;
};

}  // namespace rdmc::view
