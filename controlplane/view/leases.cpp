#include "controlplane/view/leases.hpp"

#include <algorithm>

namespace rdmc::view {

/// The other process's clock may be too slow, and this process's clock may be too fast. So the result is
/// `duration` times (1 + drift) / (1 - drift), rounded up.
Duration stretched(Duration duration) {
  constexpr std::int64_t kSlow = 1'000'000 - kClockDrift;
  return duration + nanoseconds((duration.ns / kSlow + 1) * 2 * kClockDrift);
}

View without(const View& view, MemberId member) {
  View after{.epoch = next(view.epoch), .held = view.held};
  // The last member has no granters. It holds its lease until it asks the store again.
  const bool is_last = view.members.size() == 1;
  for (const Member& one : view.members) {
    if (one.id != member)
      after.members.push_back(one);
    else if (one.lease > Duration{})
      after.held.push_back({member, is_last ? Timing{}.store_fresh : one.lease});
  }
  return after;
}

void LeaseGrants::note(MemberId holder, Duration remaining, Time now) {
  Time& until = holders_[holder].until;
  until = std::max(until, now + stretched(remaining));
}

void LeaseGrants::has_installed(MemberId holder, Epoch epoch) {
  if (const auto found = holders_.find(holder); found != holders_.end())
    found->second.installed = std::max(found->second.installed, epoch);
}

void LeaseGrants::forget_over(Time now) {
  std::erase_if(holders_, [now](const auto& entry) { return entry.second.until <= now; });
}

Time LeaseGrants::earlier_over_at(Epoch epoch) const {
  Time at{};
  for (const auto& [id, holder] : holders_)
    if (holder.installed < epoch) at = std::max(at, holder.until);
  return at;
}

std::vector<Held> LeaseGrants::held_outside(const View& view, Time now) const {
  std::vector<Held> held;
  for (const auto& [id, holder] : holders_)
    if (!view.contains(id) && holder.until > now)
      held.push_back({id, std::min(holder.until - now, kMaxHeld)});
  if (held.size() <= kMaxMembers) return held;
  // A view cannot contain this number of holders, so one wait stands for all of them.
  const auto longest = std::ranges::max(held, {}, &Held::remaining);
  return {{kAnybody, longest.remaining}};
}

void Lease::begin_view(const View& view, MemberId self) {
  // The granters are collected before anything is changed. Otherwise memory could run out after a part of the
  // changes. A process without granters would then grant the lease to itself.
  std::map<MemberId, Time> granters;
  for (const Member& member : view.members)
    if (member.id != self) granters[member.id] = Time{};
  earlier_ = granted_until();
  asked_.clear();
  granted_.swap(granters);
}

void Lease::asked(std::uint64_t sequence, Time now) {
  if (asked_.size() == kMostAsked) asked_.pop_front();
  asked_.emplace_back(sequence, now);
}

void Lease::granted(MemberId by, std::uint64_t sequence) {
  const auto granter = granted_.find(by);
  const auto asked = std::ranges::find(asked_, sequence, &std::pair<std::uint64_t, Time>::first);
  if (granter == granted_.end() || asked == asked_.end()) return;
  granter->second = std::max(granter->second, asked->second + term_);
}

void Lease::end() {
  earlier_ = {};
  granted_.clear();
  asked_.clear();
}

Time Lease::granted_until() const {
  Time least = granted_.empty() && !asked_.empty() ? asked_.back().second + term_ : Time{};
  if (!granted_.empty()) least = Time::never();
  for (const auto& [id, until] : granted_) least = std::min(least, until);
  return std::max(least, earlier_);
}

}  // namespace rdmc::view
