// The faults of the scenario kv.
#include <algorithm>
#include <array>

#include "apps/sim/kv_world.hpp"

namespace rdmc::sim_app {

namespace {

constexpr std::uint64_t kShortest = 5, kShort = 300, kLong = 4000;  // milliseconds
constexpr std::int64_t kLongestJump = 10'000;                       // milliseconds
constexpr std::uint64_t kLeastSteps = 50;  // until a fault that was not possible is tried again
/// The paces of steps while faults strike. With the slowest one, requests wait for seconds.
constexpr std::array<std::int64_t, 4> kPaces{20'000, 100'000, 400'000, 4'000'000};
constexpr std::uint64_t kRepairOneIn[] = {30, 200, 1000};

}  // namespace

std::int64_t KvWorld::up_to(std::uint64_t milliseconds) {
  return world_.now() + static_cast<std::int64_t>(kShortest + below(milliseconds)) * kMillisecond;
}

void KvWorld::plan_faults() {
  for (std::size_t i = 0; i < kKvFaults.size(); ++i)
    for (std::uint32_t times = options_.strikes[i]; times > 0; --times)
      planned_.push_back({static_cast<KvFault>(i), below(options_.steps)});
}

void KvWorld::strike_due() {
  if (chance(500)) {
    // Without faults, no request may take so long that it gets an error.
    pace_ = kPaces[below(kPaces.size() - (planned_.empty() ? 1 : 0))];
    repair_one_in_ = kRepairOneIn[below(std::size(kRepairOneIn))];
  }
  const auto due = std::ranges::find_if(planned_, [&](const Planned& one) { return one.step <= steps_; });
  if (due == planned_.end()) return;
  const KvFault fault = due->fault;
  if (!strike(fault)) {
    due->step = steps_ + kLeastSteps + below(kLeastSteps);
    return;
  }
  planned_.erase(due);
  ++struck_[static_cast<std::size_t>(fault)];
  trace_.record(Time{world_.now()}, sim::TraceKind::scenario, 2, 0, static_cast<std::uint64_t>(fault));
}

bool KvWorld::is_another_paused(const KvHost& host) {
  return std::ranges::any_of(world_.group(), [&](MemberId id) {
    return host_of(id) != &host && world_[id].is_alive && world_[id].is_paused();
  });
}

bool KvWorld::can_do_without(const KvHost& host) {
  if (host.process() == nullptr) return false;
  return std::ranges::any_of(world_.group(), [&](MemberId id) {
    const KvHost* const other = host_of(id);
    return other != nullptr && other != &host && other->is_complete() && !world_[id].is_paused() &&
           !world_[id].has_ended;
  });
}

/// Half of the time the main, because more depends on it.
KvHost& KvWorld::choose_victim() {
  KvHost* const main = host_of(world_.root());
  return main != nullptr && chance(2) ? *main : any_running();
}

bool KvWorld::strike(KvFault fault) {
  KvHost& host = choose_victim();
  switch (fault) {
    case KvFault::kill:
    case KvFault::restart:
    case KvFault::transfer:
      if (!can_do_without(host)) return false;
      clients_.lose(host);
      host.kill();
      host.waits_until = fault == KvFault::kill ? up_to(kLong) : world_.now();
      world_.failing_transfers += fault == KvFault::transfer;
      return true;
    case KvFault::leave_out:
      if (!can_do_without(host) || is_another_paused(host)) return false;
      if (!world_.is_in_group(host.process()->member)) return false;
      world_.leave_out(host.process()->member);
      return true;
    case KvFault::pause:
      if (host.process() == nullptr || host.process()->is_paused()) return false;
      host.process()->paused_until = up_to(kShort);
      return true;
    case KvFault::pause_leave_out: return pause_and_leave_out(host);
    case KvFault::slow:
      if (host.process() == nullptr) return false;
      host.process()->slow_until = up_to(kShort);
      return true;
    case KvFault::clock:
      host.set_clock_ahead((static_cast<std::int64_t>(below(2 * kLongestJump)) - kLongestJump) *
                           kMillisecond);
      return true;
    case KvFault::disconnect: return clients_.disconnect_one();
  }
  return false;
}

/// A main that was stopped believes for a moment that it is still the main.
bool KvWorld::pause_and_leave_out(KvHost& host) {
  if (!can_do_without(host) || is_another_paused(host) || host.process()->is_paused()) return false;
  const MemberId member = host.process()->member;
  if (!world_.is_in_group(member)) return false;
  host.process()->paused_until = up_to(kLong);
  world_.leave_out(member);
  pace_ = std::max(pace_, kPaces[2]);
  return true;
}

void KvWorld::heal() {
  pace_ = kPaces[0];
  repair_one_in_ = 100;
  for (const auto& host : hosts_) {
    host->waits_until = 0;
    if (StateProcess* const process = host->process()) process->paused_until = process->slow_until = 0;
  }
  start_dead();
}

}  // namespace rdmc::sim_app
