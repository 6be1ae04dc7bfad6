// Leases (Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for distributed file cache
// consistency", SOSP 1989), as far as one process knows of them. A member of a view holds a lease while every
// other member of the view (its granters) has granted it one. While it holds the lease, no process serves in
// a later view. No clock is compared with another: the holder counts the term from when it sent the request,
// a granter from when the request arrived, and the granter adds as much as the rates of two clocks may
// differ. Times are of a clock that goes on while the machine is suspended (CLOCK_BOOTTIME), never jumps, and
// whose rate is right within kClockDrift. Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "controlplane/view/types.hpp"

namespace rdmc::view {

/// The granter's side: until when others may believe that they hold a lease.
class LeaseGrants {
 public:
  /// `holder` may hold a lease for `remaining`, on a clock of its own, from `now` on.
  void note(MemberId holder, Duration remaining, Time now);
  /// That process has installed the view of `epoch`: it serves in no earlier one.
  void has_installed(MemberId holder, Epoch epoch);
  /// That process is proven dead.
  void forget(MemberId holder) { holders_.erase(holder); }
  void forget_over(Time now);

  /// The end of all leases of processes that have not shown that they have installed the view of `epoch`.
  /// Time{} when there are none.
  Time earlier_over_at(Epoch epoch) const;
  /// What may still be held by who is not in `view`.
  std::vector<Held> held_outside(const View& view, Time now) const;
  bool empty() const { return holders_.empty(); }

 private:
  struct Holder {
    Time until{};
    Epoch installed{};
  };
  std::map<MemberId, Holder> holders_;
};

/// The holder's side.
class Lease {
 public:
  explicit Lease(Duration term) : term_(term) {}

  /// The view is installed. What the granters of the last view have granted stands; nothing more is added to
  /// it.
  void begin_view(const View& view, MemberId self);
  /// Our status with that number left, or leaves soon, and asks for grants.
  void asked(std::uint64_t sequence, Time now);
  void granted(MemberId by, std::uint64_t sequence);
  /// The lease is given up, whatever has been granted.
  void end();

  /// Until when all granters of this view, or of an earlier one, have granted the lease. A process that is
  /// alone in a view grants the lease to itself when it asks.
  Time granted_until() const;

 private:
  static constexpr std::size_t kMostAsked = 64;  // statuses that an answer may still come to

  const Duration term_;
  Time earlier_{};                    ///< by grants of earlier views
  std::map<MemberId, Time> granted_;  ///< by each granter of this view; Time{}: not yet
  std::deque<std::pair<std::uint64_t, Time>> asked_;
};

}  // namespace rdmc::view
