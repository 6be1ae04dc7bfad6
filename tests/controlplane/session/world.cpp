#include "tests/controlplane/session/world.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::session::test {

World::World(Options options)
    : options_(options), random_(options.seed), processes_(options.participants + 1) {
  std::vector<ParticipantSpec> specs;
  for (std::size_t i = 1; i < processes_.size(); ++i) {
    specs.push_back(
        {MemberId{static_cast<std::uint32_t>(i)}, name_of(i), name_of(i), Bytes(3, std::byte{0x4A})});
    processes_[i].participant = std::make_unique<Participant>(ParticipantConfig{"test", options_.timing});
    processes_[i].data_needed = nanoseconds(
        static_cast<std::int64_t>(random_.between(static_cast<std::uint64_t>(options_.data_time.ns) / 2,
                                                  static_cast<std::uint64_t>(options_.data_time.ns))));
  }
  coordinator_ =
      std::make_unique<Coordinator>(CoordinatorConfig{{}, "root", "127.0.0.1:7700", options_.timing}, specs);
  post(0, now_, [this] { coordinator_->start(now_); });
  for (std::size_t i = 1; i < processes_.size(); ++i) {
    post(i, arrival(processes_[i].from_root_last), [this, i] {
      Process& process = processes_[i];
      process.own_open = process.root_open = true;
      process.participant->on_connected(now_);
      post(0, arrival(process.to_root_last), [this, i] { coordinator_->on_connected(MemberId(i), now_); });
    });
  }
}

std::string World::name_of(std::size_t process) {
  if (process == 0) return "root";
  std::string name(1, 'h');
  name += std::to_string(process);
  return name;
}

void World::at(Time when, std::function<void()> action) {
  events_.push({std::max(when, now_), next_order_++, std::move(action)});
}

void World::on(std::size_t process, std::string event, std::function<void()> action, int count,
               Duration after) {
  hooks_.push_back({process, std::move(event), count, after, std::move(action)});
}

bool World::running(std::size_t process) const {
  return processes_[process].alive && processes_[process].paused_until <= now_;
}

/// An input of a process: lost when it is dead, late when it is paused; then its machine is drained.
void World::post(std::size_t process, Time when, std::function<void()> action) {
  at(when, [this, process, action = std::move(action)]() mutable {
    if (!processes_[process].alive) return;
    if (!running(process)) return processes_[process].held.push_back(std::move(action));
    action();
    drain(process);
  });
}

void World::drain(std::size_t process) {
  if (process == 0) {
    while (auto output = coordinator_->poll()) handle(std::move(*output));
  } else {
    while (auto output = processes_[process].participant->poll()) handle(process, std::move(*output));
  }
  arm_timer(process);
}

void World::arm_timer(std::size_t process) {
  Process& self = processes_[process];
  const Time due = process == 0 ? coordinator_->next_deadline() : self.participant->next_deadline();
  if (due >= self.timer_at) return;
  self.timer_at = due;
  at(due, [this, process, due] {
    Process& timed = processes_[process];
    if (timed.timer_at != due) return;
    timed.timer_at = Time::never();
    if (!running(process)) return;  // its resumption arms the timer again
    if (process == 0)
      coordinator_->on_timer(now_);
    else
      timed.participant->on_timer(now_);
    drain(process);
  });
}

void World::kill(std::size_t process) {
  if (!processes_[process].alive) return;
  processes_[process].alive = false;
  const Error reset{Errc::peer_failed, "closed its control channel"};
  if (process != 0) return close(process, process, reset);
  for (std::size_t i = 1; i < processes_.size(); ++i) close(0, i, reset);
}

void World::pause(std::size_t process, Duration length) {
  Process& self = processes_[process];
  self.paused_until = std::max(self.paused_until, now_ + length);
  at(self.paused_until, [this, process] {
    Process& resumed = processes_[process];
    if (!running(process)) return;
    for (auto& action : std::exchange(resumed.held, {})) {
      action();
      drain(process);
    }
    if (process == 0)
      coordinator_->on_timer(now_);
    else
      resumed.participant->on_timer(now_);
    drain(process);
  });
}

void World::refuse_connection(std::size_t process, Error cause) {
  kill(process);
  post(0, now_ + milliseconds(1),
       [this, process, cause] { coordinator_->on_closed(MemberId(process), cause, now_); });
}

void World::inject(std::size_t process, Bytes bytes, bool to_participant) {
  if (to_participant)
    send(0, process, std::move(bytes));
  else
    send(process, 0, std::move(bytes));
}

void World::interrupt(Error cause) {
  post(0, now_, [this, cause] { coordinator_->interrupt(cause, now_); });
}

Time World::arrival(Time& last) {
  const auto low = static_cast<std::uint64_t>(options_.min_delay.ns),
             high = static_cast<std::uint64_t>(options_.max_delay.ns);
  last = std::max(last + nanoseconds(1),
                  now_ + nanoseconds(static_cast<std::int64_t>(random_.between(low, high))));
  return last;
}

void World::send(std::size_t from, std::size_t to, Bytes bytes) {
  Process& end = processes_[std::max(from, to)];
  if (!(from == 0 ? end.root_open : end.own_open) || end.cut) return;
  if (end.tamper) end.tamper(bytes);
  for (const std::byte b : bytes)
    trace_hash_ = (trace_hash_ ^ std::to_integer<std::uint64_t>(b)) * 1099511628211u;
  const std::size_t participant = std::max(from, to);
  if (from == 0) {
    post(to, arrival(end.from_root_last), [this, participant, bytes = std::move(bytes)] {
      if (processes_[participant].own_open) processes_[participant].participant->on_message(bytes, now_);
    });
  } else {
    post(0, arrival(end.to_root_last), [this, participant, bytes = std::move(bytes)] {
      if (processes_[participant].root_open) coordinator_->on_message(MemberId(participant), bytes, now_);
    });
  }
}

void World::close(std::size_t by, std::size_t participant, Error cause) {
  Process& end = processes_[participant];
  bool& open = by == 0 ? end.root_open : end.own_open;
  if (!std::exchange(open, false) || end.cut) return;
  if (by == 0) {
    post(participant, arrival(end.from_root_last), [this, participant, cause] {
      if (!std::exchange(processes_[participant].own_open, false)) return;
      processes_[participant].participant->on_closed(cause, now_);
    });
  } else {
    post(0, arrival(end.to_root_last), [this, participant, cause] {
      if (std::exchange(processes_[participant].root_open, false))
        coordinator_->on_closed(MemberId(participant), cause, now_);
    });
  }
}

bool World::run(Time limit) {
  const auto over = [this] {
    if (processes_[0].alive && !coordinator_->finished()) return false;
    for (std::size_t i = 1; i < processes_.size(); ++i) {
      const Process& process = processes_[i];
      if (process.alive && process.paused_until != Time::never() && !process.participant->finished())
        return false;
    }
    return true;
  };
  while (!over() && !events_.empty()) {
    if (events_.top().at > limit) return false;
    Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.action();
  }
  return over();
}

void World::record(Record record) {
  record.at = now_;
  for (const char c : record.event)
    trace_hash_ = (trace_hash_ ^ static_cast<std::uint8_t>(c)) * 1099511628211u;
  trace_hash_ = (trace_hash_ ^ static_cast<std::uint64_t>(now_.ns)) * 1099511628211u;
  records_.push_back(record);
  for (Hook& hook : hooks_)
    if (hook.process == record.process && hook.event == record.event && --hook.left == 0)
      at(now_ + hook.after, hook.action);
}

const Record* World::find(std::size_t process, std::string_view event, int count) const {
  for (const Record& record : records_)
    if (record.process == process && record.event == event && --count == 0) return &record;
  return nullptr;
}

int World::count(std::size_t process, std::string_view event) const {
  return static_cast<int>(std::ranges::count_if(
      records_, [&](const Record& record) { return record.process == process && record.event == event; }));
}

const Record* World::outcome(std::size_t process) const {
  for (const Record& record : records_)
    if (record.process == 0 && record.event == "MemberFinished" && record.subject == name_of(process))
      return &record;
  return nullptr;
}

}  // namespace rdmc::session::test
