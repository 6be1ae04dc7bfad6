// The kernel of a simulation: virtual time, the event heap, the seeded randomness, and the processes that
// take turns on it. A run is a function of its seed: nothing here reads a clock, and nothing depends on
// addresses or hash order. Processes are not owned; one that was killed is never called again and may be
// destroyed. One thread.
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

/// A program under simulation. It is given a turn when something has arrived for it, or its deadline has
/// come.
class Process {
 public:
  virtual ~Process() = default;
  virtual void run(Time now) = 0;
  /// Asked after each turn. At or before `now` means: another turn as soon as possible.
  virtual Time next_deadline() = 0;
};

struct ProcessOptions {
  Duration wake_latency{};          ///< from an arrival to the turn it causes
  Duration turn = microseconds(1);  ///< how long a turn takes: the next begins no sooner. At least 1 ns.
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

  /// `at` >= now().
  void schedule(Time at, EventTarget& target, std::uint64_t argument);
  /// The scenario's own steps.
  void at(Time when, std::function<void()> step);

  /// Its first turn comes at once.
  ProcessId add_process(HostId host, Process& process, ProcessOptions options = {});
  /// Something has arrived for it (or was asked of it from outside): a turn soon. Nothing if it is not
  /// running; a paused one gets its turn when it is resumed.
  void wake(ProcessId id);
  /// SIGKILL: never runs again; its channels close, its datagrams find nobody. Once is enough.
  void kill(ProcessId id);
  /// SIGSTOP and SIGCONT: meanwhile its sockets fill.
  void pause(ProcessId id);
  void resume(ProcessId id);
  ProcessState state(ProcessId id) const { return entry(id).state; }
  HostId host(ProcessId id) const { return entry(id).host; }
  std::uint64_t turns(ProcessId id) const { return entry(id).turns; }
  /// Called when a process is killed, in the order of registration.
  void on_kill(std::function<void(ProcessId)> observer) { kill_observers_.push_back(std::move(observer)); }

  /// The next event; false if there is none.
  bool step();
  /// All events up to and including `limit`; the time is `limit` then.
  void run_until(Time limit);
  /// Until done() says true, looked at after every event. False: `limit` or the end of all events came first.
  bool run_until(const std::function<bool()>& done, Time limit);

 private:
  struct Entry {
    Process* process;
    HostId host;
    ProcessOptions options;
    ProcessState state = ProcessState::running;
    Time wake_event = Time::never();  ///< the wake in the heap, if any
    Time timer_event =
        Time::never();  ///< the earliest timer in the heap, if any: not after `deadline`, as a rule
    Time deadline = Time::never();
    Time free_at{};  ///< when its last turn ends
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
