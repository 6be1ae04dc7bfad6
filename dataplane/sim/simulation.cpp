#include "dataplane/sim/simulation.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rdmc::sim {
namespace {

// The kinds of the simulation's own events. The low bits of an event's argument contain the kind.
enum class OwnEvent : std::uint64_t { step, wake, timer };

constexpr std::uint64_t argument_of(OwnEvent kind, std::uint64_t value) {
  return value << 2 | static_cast<std::uint64_t>(kind);
}

}  // namespace

void Simulation::schedule(Time at, EventTarget& target, std::uint64_t argument) {
  assert(at >= now_);
  queue_.push(at, target, argument);
}

void Simulation::at(Time when, std::function<void()> step) {
  steps_.push_back(std::move(step));
  schedule(when, *this, argument_of(OwnEvent::step, steps_.size() - 1));
}

ProcessId Simulation::add_process(HostId host, Process& process, ProcessOptions options) {
  assert(options.turn.ns >= 1);
  const auto id = ProcessId{static_cast<std::uint32_t>(processes_.size())};
  processes_.push_back(Entry{.process = &process, .host = host, .options = options, .free_at = now_});
  wake(id);
  return id;
}

void Simulation::wake(ProcessId id) {
  Entry& e = entry(id);
  if (e.state != ProcessState::running || e.wake_event != Time::never()) return;
  e.wake_event = std::max(now_ + e.options.wake_latency, e.free_at);
  schedule(e.wake_event, *this, argument_of(OwnEvent::wake, value_of(id)));
}

void Simulation::kill(ProcessId id) {
  Entry& e = entry(id);
  if (e.state == ProcessState::killed) return;
  e.state = ProcessState::killed;
  e.process = nullptr;
  faults_.add(Fault::kill);
  record_state(id);
  for (const auto& observer : kill_observers_) observer(id);
}

void Simulation::pause(ProcessId id) {
  Entry& e = entry(id);
  if (e.state != ProcessState::running) return;
  e.state = ProcessState::paused;
  faults_.add(Fault::pause);
  record_state(id);
}

void Simulation::resume(ProcessId id) {
  Entry& e = entry(id);
  if (e.state != ProcessState::paused) return;
  e.state = ProcessState::running;
  record_state(id);
  wake(id);  // A turn is needed even if nothing has arrived, because deadlines may have passed.
}

void Simulation::record_state(ProcessId id) {
  const Entry& e = entry(id);
  trace_.record(now_, TraceKind::process_state, value_of(id), value_of(e.host),
                static_cast<std::uint64_t>(e.state));
}

bool Simulation::step() {
  if (queue_.empty()) return false;
  const Event event = queue_.pop();
  now_ = event.at;
  ++events_;
  event.target->on_event(event.argument);
  return true;
}

void Simulation::run_until(Time limit) {
  while (!queue_.empty() && queue_.top().at <= limit) step();
  now_ = std::max(now_, limit);
}

bool Simulation::run_until(const std::function<bool()>& done, Time limit) {
  if (done()) return true;
  while (!queue_.empty() && queue_.top().at <= limit) {
    step();
    if (done()) return true;
  }
  return false;
}

void Simulation::on_event(std::uint64_t argument) {
  const std::uint64_t value = argument >> 2;
  if (static_cast<OwnEvent>(argument & 3) == OwnEvent::step) {
    const auto step = std::exchange(steps_[value], nullptr);
    step();
    return;
  }
  const auto id = ProcessId{static_cast<std::uint32_t>(value)};
  Entry& e = entry(id);
  if (static_cast<OwnEvent>(argument & 3) == OwnEvent::wake) {
    e.wake_event = Time::never();
    give_turn(id);
    return;
  }
  if (e.timer_event != now_) return;  // An earlier timer has replaced this one, which was left to expire.
  e.timer_event = Time::never();
  // The deadline may have moved to a later time since the timer was set. It would cost more to take the old
  // timer out of the heap. So the new timer is set only now.
  if (e.deadline > now_)
    arm_timer(id, e);
  else
    give_turn(id);
}

void Simulation::give_turn(ProcessId id) {
  if (entry(id).state != ProcessState::running) return;
  if (entry(id).free_at > now_) {
    wake(id);
    return;
  }
  {
    Entry& e = entry(id);
    ++e.turns;
    e.free_at = now_ + e.options.turn;
    trace_.record(now_, TraceKind::process_run, value_of(id), value_of(e.host), 0);
    e.process->run(now_);
  }
  Entry& e = entry(id);  // looked up again, because the turn may have added processes
  if (e.state != ProcessState::running) return;
  e.deadline = std::max(e.process->next_deadline(), e.free_at);
  arm_timer(id, e);
}

void Simulation::arm_timer(ProcessId id, Entry& e) {
  if (e.deadline >= e.timer_event || e.deadline == Time::never()) return;
  e.timer_event = e.deadline;
  schedule(e.timer_event, *this, argument_of(OwnEvent::timer, value_of(id)));
}

}  // namespace rdmc::sim
