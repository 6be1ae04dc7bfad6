// The faults that strike a simulated group, and how they end.
#include "apps/sim/views_world.hpp"

namespace rdmc::sim_app {
namespace {

/// The longest time from a process's death until the kernel informs another host of it.
constexpr Duration kSignal = microseconds(500);
constexpr std::uint32_t kHalf = 500'000, kMost = 800'000, kNearlyAll = 900'000;

}  // namespace

Duration ViewsWorld::up_to(Duration most) {
  return nanoseconds(
      static_cast<std::int64_t>(simulation_.random().below(static_cast<std::uint64_t>(most.ns))));
}

void ViewsWorld::plan_faults() {
  network_.set_faults(options_.rates);
  const Time begin = simulation_.now();
  quiet_ = begin + options_.faulty_time;
  for (std::size_t i = 0; i < kViewsFaults.size(); ++i)
    for (std::uint32_t times = options_.strikes[i]; times > 0; --times)
      simulation_.at(begin + up_to(options_.faulty_time), [this, i] { strike(static_cast<ViewsFault>(i)); });
}

void ViewsWorld::strike(ViewsFault fault) {
  const sim::HostId host = any_host();
  const sim::HostId other = hosts_[(value_of(host) + 1) % hosts_.size()];
  ViewsMember* const member = current_[value_of(host)];
  if (fault == ViewsFault::kill_in_change) {
    kill_proposer_ = true;
    return;  // This fault strikes when a member proposes a view.
  }
  struck(fault);
  if (fault == ViewsFault::clock_jump && options_.lease > Duration{}) fault = ViewsFault::suspend;
  switch (fault) {
    case ViewsFault::kill: return kill(host, true);
    case ViewsFault::silent_death: return kill(host, false);
    case ViewsFault::silence:
      network_.isolate(host);
      return until_later(seconds(2), [this, host] { network_.rejoin(host); });
    case ViewsFault::pause: return stop_for(host, milliseconds(300) + up_to(milliseconds(1700)));
    case ViewsFault::short_pause: return stop_for(host, milliseconds(300));
    case ViewsFault::starve: return starve_for(host, milliseconds(300) + up_to(milliseconds(1700)));
    case ViewsFault::partition: return part_hosts();
    case ViewsFault::one_way:
      network_.block(host, other);
      return until_later(seconds(2), [this, host, other] { network_.unblock(host, other); });
    case ViewsFault::deaf:
      for (const sim::HostId from : hosts_)
        if (from != host) network_.block(from, host);
      return until_later(seconds(2), [this, host] {
        for (const sim::HostId from : hosts_) network_.unblock(from, host);
      });
    case ViewsFault::flap: return flap(host, other, true);
    case ViewsFault::store_outage:
      store_.set_down(true);
      return until_later(milliseconds(1500), [this] { store_.set_down(false); });
    case ViewsFault::store_cut:
      store_.keep_away(host);
      return until_later(milliseconds(1500), [this, host] { store_.let_in(host); });
    case ViewsFault::lost_answers:
      store_.lose_answers(kHalf);
      store_.lose_hints(kHalf);
      return until_later(milliseconds(500), [this] { store_.lose_answers(0); });
    case ViewsFault::clock_jump:
      if (member == nullptr) return;
      member->jump_clock(up_to(seconds(20)) - seconds(10));
      return simulation_.wake(member->process());
    case ViewsFault::leave:
      if (member == nullptr || !member->alive()) return;
      leavers_.insert(member->id());
      return member->leave();
    case ViewsFault::store_late:
      store_.be_late(milliseconds(1500));
      return until_later(milliseconds(1500), [this] { store_.be_late({}); });
    case ViewsFault::store_refuses:
      store_.refuse(kNearlyAll);
      return until_later(milliseconds(1500), [this] { store_.refuse(0); });
    case ViewsFault::store_back:
      store_.go_back(1 + simulation_.random().below(3));
      return until_later(milliseconds(1500), [this] { store_.return_from_backup(); });
    case ViewsFault::cut_newcomer:
    case ViewsFault::refused:
      kill(host, true);
      network_.isolate(host);
      if (!current_[value_of(host)]->alive()) start(host);
      if (fault == ViewsFault::refused) current_[value_of(host)]->be_refused(true);
      return simulation_.at(quiet_, [this, host] { network_.rejoin(host); });
    case ViewsFault::same_address:
      if (other_ == nullptr || !other_->alive())
        other_ = &begin(elsewhere_, host,
                        simulation_.random().chance(kHalf) ? machine_of(host) : kMachineElsewhere);
      return;
    case ViewsFault::suspend:
      return stop_for(host, milliseconds(300) + up_to(milliseconds(1700)), options_.clock_stops);
    case ViewsFault::operator_removes:
      if (member != nullptr && member->alive()) remove_as_operator(member->id());
      return;
    case ViewsFault::forged_refusal:
      if (member != nullptr && member->alive()) refuse_falsely(member->id());
      return;
    case ViewsFault::kill_in_change: return;
  }
}

void ViewsWorld::on_proposing(ViewsMember& member) {
  if (&member == other_ || !std::exchange(kill_proposer_, false)) return;
  struck(ViewsFault::kill_in_change);
  const sim::HostId host = member.host();
  until_later(milliseconds(3), [this, host] { kill(host, true); });
}

void ViewsWorld::kill(sim::HostId host, bool signalled) {
  ViewsMember* const member = current_[value_of(host)];
  if (member == nullptr || !member->alive()) return;
  const view::MemberId id = member->id();
  stop(*member);
  if (store_.current().contains(id)) deaths_.push_back({id, simulation_.now()});
  if (signalled) tell_death(host, id);
  restart_some_time(host);
}

void ViewsWorld::tell_death(sim::HostId host, view::MemberId member) {
  for (const sim::HostId other : hosts_) {
    if (other == host || !network_.reaches(host, other)) continue;
    simulation_.at(simulation_.now() + up_to(kSignal), [this, host, other, member] {
      ViewsMember* const observer = current_[value_of(other)];
      if (observer == nullptr || !observer->alive()) return;
      observer->tell_refused(member, true);
      if (machine_of(other) == machine_of(host)) observer->tell_exited(member);
    });
  }
}

void ViewsWorld::restart_some_time(sim::HostId host) {
  if (!options_.restarts || !simulation_.random().chance(kMost)) return;
  until_later(seconds(1), [this, host] {
    if (!current_[value_of(host)]->alive()) start(host);
  });
}

void ViewsWorld::remove_as_operator(view::MemberId member) {
  ViewsMember* const asked = current_[value_of(any_host())];
  if (simulation_.random().chance(kHalf))
    store_.remove(member);
  else if (asked != nullptr && asked->alive())
    asked->remove(member);
}

void ViewsWorld::refuse_falsely(view::MemberId member) {
  for (ViewsMember* const other : current_)
    if (other != nullptr && other->alive() && other->id() != member) other->tell_refused(member, true);
}

void ViewsWorld::stop_for(sim::HostId host, Duration time, bool clock_stops) {
  if (current_[value_of(host)] == nullptr) return;
  starved_.insert(current_[value_of(host)]->id());
  const sim::ProcessId process = current_[value_of(host)]->process();
  simulation_.pause(process);
  const Time begin = simulation_.now();
  simulation_.at(std::min(quiet_, begin + time), [=, this, member = current_[value_of(host)]] {
    if (clock_stops) member->jump_clock(begin - simulation_.now());
    simulation_.resume(process);
  });
}

void ViewsWorld::starve_for(sim::HostId host, Duration time) {
  ViewsMember* const member = current_[value_of(host)];
  if (member == nullptr || !member->alive()) return;
  starved_.insert(member->id());
  member->starve(true);
  simulation_.at(std::min(quiet_, simulation_.now() + time), [member] { member->starve(false); });
}

void ViewsWorld::part_hosts() {
  const std::uint64_t cut = simulation_.random().below(hosts_.size());
  const auto each = [this, cut](auto action) {
    for (std::size_t a = 0; a < hosts_.size(); ++a)
      for (std::size_t b = 0; b < hosts_.size(); ++b)
        if ((a < cut) != (b < cut)) action(hosts_[a], hosts_[b]);
  };
  each([this](sim::HostId a, sim::HostId b) { network_.block(a, b); });
  until_later(seconds(2),
              [this, each] { each([this](sim::HostId a, sim::HostId b) { network_.unblock(a, b); }); });
}

void ViewsWorld::flap(sim::HostId a, sim::HostId b, bool broken) {
  if (simulation_.now() >= quiet_) return;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
    broken ? network_.block(from, to) : network_.unblock(from, to);
  simulation_.at(simulation_.now() + milliseconds(50) + up_to(milliseconds(350)),
                 [this, a, b, broken] { flap(a, b, !broken); });
}

/// Undoes a fault at a random time within `time` from now, but before the end of all faults.
void ViewsWorld::until_later(Duration time, std::function<void()> undo) {
  simulation_.at(std::min(quiet_, simulation_.now() + up_to(time)), std::move(undo));
}

void ViewsWorld::heal() {
  network_.set_faults({});
  kill_proposer_ = false;
  if (other_ != nullptr) stop(*other_);
  for (const sim::HostId host : hosts_) {
    network_.rejoin(host);
    if (current_[value_of(host)] != nullptr) current_[value_of(host)]->be_refused(false);
    store_.let_in(host);
    for (const sim::HostId other : hosts_) network_.unblock(host, other);
  }
  store_.set_down(false);
  store_.lose_answers(0);
  store_.lose_hints(0);
  store_.be_late({});
  store_.refuse(0);
  store_.return_from_backup();
}

}  // namespace rdmc::sim_app
