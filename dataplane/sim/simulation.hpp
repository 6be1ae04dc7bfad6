// The kernel of a simulation: virtual time, the event heap, the seeded random numbers, and the processes that
// take turns. A run depends on its seed only: no code of a simulation reads a clock, or depends on memory
// addresses or on the order of a hash table. The simulation does not own the processes. A process that was
// killed is never called again and may be destroyed. Only one thread may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/sim/event_queue.hpp"
#include "dataplane/sim/faults.hpp"
#include "dataplane/sim/trace.hpp"

namespace rdmc::sim {

enum class HostId : std::uint32_t {};
enum class RackId : std::uint32_t {};
enum class ProcessId : std::uint32_t {};

/// A simulated program. It gets a turn when something has arrived for it, or when its deadline has passed.
class Process {
 public:
  virtual ~Process() = default;
  virtual void run(Time now) = 0;
  /// Called after each turn. A time at or before `now` requests another turn as soon as possible.
  virtual Time next_deadline() = 0;
};

struct ProcessOptions {
  Duration wake_latency{};  ///< the time from an arrival to the turn that it causes
  /// The time that a turn takes (at least 1 ns); the next turn does not start before it ends.
  Duration turn = microseconds(1);
};

enum class ProcessState : std::uint8_t { running, paused, killed };

class Simulation : private EventTarget {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Time now() const { return now_; }
  Random& random() { return random_; }
  Trace& trace() { return trace_; }
  FaultCounts& faults() { return faults_; }
  std::uint64_t events() const { return events_; }

  /// Precondition: `at` >= now().
  void schedule(Time at, EventTarget& target, std::uint64_t argument);
  /// Calls a step of the scenario at the time `when`.
  void at(Time when, std::function<void()> step);

  /// Adds a process. Its first turn comes at once.
  ProcessId add_process(HostId host, Process& process, ProcessOptions options = {});
  /// Requests a turn for the process, because something has arrived for it, or because code outside of the
  /// simulation has given it work. The call has no effect if the process is not running. A paused process
  /// gets its turn when it is resumed.
  void wake(ProcessId id);
  /// Kills the process like SIGKILL: it never runs again, its channels close, and datagrams to it are
  /// unreachable. A second call has no effect.
  void kill(ProcessId id);
  /// pause() stops the process as SIGSTOP does, and resume() continues it as SIGCONT does. While the process
  /// is paused, data collects in its sockets.
  void pause(ProcessId id);
  void resume(ProcessId id);
  ProcessState state(ProcessId id) const { return entry(id).state; }
  HostId host(ProcessId id) const { return entry(id).host; }
  std::uint64_t turns(ProcessId id) const { return entry(id).turns; }
  /// Registers a function that is called when a process is killed. The functions are called in the order of
  /// their registration.
  void on_kill(std::function<void(ProcessId)> observer) { kill_observers_.push_back(std::move(observer)); }

  /// Runs the next event. Returns false if there is no event.
  bool step();
  /// Runs all events up to and including the time `limit`. Then the time is `limit`.
  void run_until(Time limit);
  /// Runs events until done() returns true. done() is called before the first event and after each event.
  /// Returns false if done() has not returned true before the time `limit` or the last event.
  bool run_until(const std::function<bool()>& done, Time limit);

 private:
  struct Entry {
    Process* process;
    HostId host;
    ProcessOptions options;
    ProcessState state = ProcessState::running;
    Time wake_event = Time::never();  ///< the time of the wake event in the heap, if there is one
    /// The time of the earliest timer in the heap, if there is one. As a rule it is not after `deadline`.
    Time timer_event = Time::never();
    Time deadline = Time::never();
    Time free_at{};  ///< the time at which its latest turn ends
    std::uint64_t turns = 0;
  };

  void on_event(std::uint64_t argument) override;
  void give_turn(ProcessId id);
  void arm_timer(ProcessId id, Entry& entry);
  Entry& entry(ProcessId id) { return processes_[value_of(id)]; }
  const Entry& entry(ProcessId id) const { return processes_[value_of(id)]; }
  void record_state(ProcessId id);

  Time now_{};
  Random random_;
  EventQueue queue_;
  Trace trace_;
  FaultCounts faults_;
  std::uint64_t events_ = 0;
  std::vector<Entry> processes_;
  std::vector<std::function<void()>> steps_;
  std::vector<std::function<void(ProcessId)>> kill_observers_;
};

}  // namespace rdmc::sim
