#include "tests/controlplane/session/world.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::session::test {

World::World(Options options)
    : options_(options), random_(options.seed), processes_(options.participants + 1) {
  std::vector<ParticipantSpec> specs;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    specs.push_back(
        {MemberId{static_cast<std::uint32_t>(i)}, name_of(i), name_of(i), Bytes(3, std::byte{0x4A})});
    processes_[i].participant = std::make_unique<Participant>(ParticipantConfig{"test", options_.timing});
    processes_[i].data_needed = nanoseconds(
        static_cast<std::int64_t>(random_.between(static_cast<std::uint64_t>(options_.data_time.ns) / 2,
                                                  static_cast<std::uint64_t>(options_.data_time.ns))));
  }
  processes_[0].held = kWhole;
  processes_[0].has_delivered = true;
  processes_[0].coordinator = std::make_unique<Coordinator>(
      CoordinatorConfig{.session = {}, .timing = options_.timing, .finds_stragglers = true}, specs);
  post(0, now_, [this] { coordinator().start(now_); });
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

/// Gives an input to a process, and then drains the process's state machines. If the process is dead, the
/// input is lost. If the process is paused, it gets the input when it resumes.
void World::post(std::size_t process, Time when, std::function<void()> action) {
  at(when, [this, process, action = std::move(action)]() mutable {
    if (!processes_[process].alive) return;
    if (!running(process)) return processes_[process].late.push_back(std::move(action));
    action();
    drain(process);
  });
}

void World::drain(std::size_t process) {
  Process& self = processes_[process];
  while (self.coordinator) {
    auto output = self.coordinator->poll();
    if (!output) break;
    lead(process, std::move(*output));
  }
  while (self.participant) {
    auto output = self.participant->poll();
    if (!output) break;
    handle(process, std::move(*output));
  }
  arm_timer(process);
}

void World::arm_timer(std::size_t process) {
  Process& self = processes_[process];
  Time due = self.participant ? self.participant->next_deadline() : Time::never();
  if (self.coordinator) due = std::min(due, self.coordinator->next_deadline());
  if (due >= self.timer_at) return;
  self.timer_at = due;
  at(due, [this, process, due] {
    Process& timed = processes_[process];
    if (timed.timer_at != due) return;
    timed.timer_at = Time::never();
    // When the process resumes, its timer is armed again.
    if (!running(process)) return;
    run_timers(process);
  });
}

void World::run_timers(std::size_t process) {
  Process& self = processes_[process];
  if (self.coordinator && self.coordinator->next_deadline() <= now_) self.coordinator->on_timer(now_);
  if (self.participant && self.participant->next_deadline() <= now_) self.participant->on_timer(now_);
  drain(process);
}

void World::kill(std::size_t process) {
  if (!processes_[process].alive) return;
  processes_[process].alive = false;
  const Error reset{Errc::peer_failed, "closed its control channel"};
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (links_.contains({i, process})) close_up(process, i, reset);
    if (links_.contains({process, i})) close_down(process, i, reset);
  }
}

void World::pause(std::size_t process, Duration length) {
  Process& self = processes_[process];
  self.paused_until = std::max(self.paused_until, now_ + length);
  at(self.paused_until, [this, process] {
    if (!running(process)) return;
    for (auto& action : std::exchange(processes_[process].late, {})) {
      action();
      drain(process);
    }
    run_timers(process);
  });
}

void World::refuse_connection(std::size_t process, Error cause) {
  kill(process);
  processes_[process].refusal = std::move(cause);
}

void World::inject(std::size_t process, Bytes bytes, bool to_participant) {
  if (to_participant)
    send_down(0, process, std::move(bytes));
  else
    send_up(process, 0, std::move(bytes));
}

void World::interrupt(Error cause) {
  post(0, now_, [this, cause] { coordinator().interrupt(cause, now_); });
}

Time World::arrival(Time& last) {
  const auto low = static_cast<std::uint64_t>(options_.min_delay.ns),
             high = static_cast<std::uint64_t>(options_.max_delay.ns);
  last = std::max(last + nanoseconds(1),
                  now_ + nanoseconds(static_cast<std::int64_t>(random_.between(low, high))));
  return last;
}

void World::open(std::size_t upper, std::size_t lower) {
  Link& channel = link(upper, lower);
  channel.upper_open = channel.lower_open = true;
  channel.fresh = upper != 0 && upper != lower;
  ++channel.generation;
}

void World::send_down(std::size_t upper, std::size_t lower, Bytes bytes) {
  Link& channel = link(upper, lower);
  if (!channel.upper_open || is_cut(upper, lower)) return;
  if (upper == 0 && processes_[lower].tamper) processes_[lower].tamper(bytes);
  for (const std::byte b : bytes)
    trace_hash_ = (trace_hash_ ^ std::to_integer<std::uint64_t>(b)) * 1099511628211u;
  post(lower, arrival(channel.down_last),
       [this, upper, lower, generation = channel.generation, bytes = std::move(bytes)] {
         const Link& now_there = link(upper, lower);
         if (now_there.lower_open && now_there.generation == generation) arrive_below(upper, lower, bytes);
       });
}

void World::send_up(std::size_t lower, std::size_t upper, Bytes bytes) {
  Link& channel = link(upper, lower);
  if (!channel.lower_open || is_cut(upper, lower)) return;
  if (upper == 0 && processes_[lower].tamper) processes_[lower].tamper(bytes);
  for (const std::byte b : bytes)
    trace_hash_ = (trace_hash_ ^ std::to_integer<std::uint64_t>(b)) * 1099511628211u;
  post(upper, arrival(channel.up_last),
       [this, upper, lower, generation = channel.generation, bytes = std::move(bytes)] {
         const Link& now_there = link(upper, lower);
         if (now_there.upper_open && now_there.generation == generation && processes_[upper].coordinator)
           processes_[upper].coordinator->on_message(MemberId(lower), bytes, now_);
       });
}

/// Does what an agent does: the first message of a channel shows whether a new coordinator has connected to
/// an orphan.
void World::arrive_below(std::size_t upper, std::size_t lower, const Bytes& bytes) {
  Process& self = processes_[lower];
  if (std::exchange(link(upper, lower).fresh, false) && !follow(upper, lower)) {
    const bool knows = !self.participant->finished();
    if (knows) send_up(lower, upper, takeover_refusal());
    return close_up(lower, upper, {Errc::peer_failed, "does not know this transfer"});
  }
  self.participant->on_message(bytes, now_);
}

bool World::follow(std::size_t upper, std::size_t lower) {
  Process& self = processes_[lower];
  if (upper != lower && self.coordinator && self.coordinator->stands_down_for(MemberId(upper)))
    drop_coordinator(lower);
  if (!self.participant->is_orphan()) return false;
  self.follows = upper;
  self.participant->on_connected(now_);
  return true;
}

void World::drop_coordinator(std::size_t process) {
  const Error gone{Errc::peer_failed, "closed its control channel"};
  for (std::size_t i = 1; i < processes_.size(); ++i)
    if (i != process && links_.contains({process, i})) close_down(process, i, gone);
  Process& self = processes_[process];
  self.coordinator.reset();
  ++self.lead;
  record({.process = process, .event = "StoodDown"});
  if (std::exchange(link(process, process).lower_open, false)) self.participant->on_closed(gone, now_);
}

void World::close_down(std::size_t upper, std::size_t lower, const Error& cause) {
  Link& channel = link(upper, lower);
  if (!std::exchange(channel.upper_open, false) || is_cut(upper, lower)) return;
  post(lower, arrival(channel.down_last), [this, upper, lower, generation = channel.generation, cause] {
    Link& now_there = link(upper, lower);
    if (now_there.generation != generation || !std::exchange(now_there.lower_open, false)) return;
    if (processes_[lower].follows == upper) processes_[lower].participant->on_closed(cause, now_);
  });
}

void World::close_up(std::size_t lower, std::size_t upper, const Error& cause) {
  Link& channel = link(upper, lower);
  if (!std::exchange(channel.lower_open, false) || is_cut(upper, lower)) return;
  post(upper, arrival(channel.up_last), [this, upper, lower, generation = channel.generation, cause] {
    Link& now_there = link(upper, lower);
    if (now_there.generation != generation || !std::exchange(now_there.upper_open, false)) return;
    if (processes_[upper].coordinator) processes_[upper].coordinator->on_closed(MemberId(lower), cause, now_);
  });
}

bool World::takes_part(std::size_t process) const {
  const Process& self = processes_[process];
  return running(process) && count(process, "FormRequested") > 0 && !self.participant->finished();
}

bool World::run(Time limit) {
  const auto over = [this] {
    return std::ranges::all_of(processes_, [](const Process& process) {
      if (!process.alive || process.paused_until == Time::never()) return true;
      return (!process.coordinator || process.coordinator->finished()) &&
             (!process.participant || process.participant->finished());
    });
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
