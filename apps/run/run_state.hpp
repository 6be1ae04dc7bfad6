// The state of a run: which processes live, which of them have joined and finished, when the run must end,
// and the exit code. It numbers the events that all processes get. The rules are:
//
// - A process has died if a signal has killed it. It has also died if it exits before it has finished,
//   whatever its exit code is. The second rule holds only if processes have joined the run: a program that
//   never joins, such as /bin/echo, only has an exit code.
// - If the replicas of a rank have not sent the same messages, the run ends.
// - If all replicas of a rank have died, the run is lost: all other processes are ended.
// - The exit code of the run is the highest one of the processes that have not died.
// - If a replica has died and others of its rank live, one of them is forked, and the new process takes the
//   place of the dead one. It does not count before it has joined.
//
// This is a core: it has no I/O and no clock. The driver calls a function for each thing that happens, and
// then takes the actions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/base/types.hpp"
#include "lib/replica/run_messages.hpp"

namespace rdmc::run {

/// The exit codes of rdmc_run that are not exit codes of a rank.
inline constexpr int kLost = 124, kCannotStart = 125, kDiffers = 126, kInterrupted = 130;
/// The numbers of the signals with which RunState ends processes.
inline constexpr int kTerminateSignal = 15, kKillSignal = 9;
/// The time between the request to end and SIGKILL, if the run is lost or aborted, and if it is interrupted.
inline constexpr Duration kEndTimeout = milliseconds(500), kInterruptTimeout = seconds(5);
/// The time that a process gets to be forked and to join, from the event Recovering on. If it takes longer,
/// the attempt has failed.
inline constexpr Duration kForkTimeout = seconds(10);
/// After so many failed attempts in a row, a replica is not replaced.
inline constexpr int kMostForkAttempts = 20;
/// The time that a process gets to exit when its connection has ended. It may be about to exit with an error.
inline constexpr Duration kCutOffTimeout = seconds(1);

/// How a process has ended.
struct Exit {
  bool by_signal = false;
  int value = 0;  ///< the exit code or the number of the signal
};

// The actions of the driver.
struct StartProcess {
  replica::ProcessId process{};
  replica::Started started;
};
struct Publish {
  replica::NumberedEvent event;
};
struct SignalProcess {
  replica::ProcessId process{};
  int signal = 0;
};
/// Call RunState::kill() after this time.
struct ArmKill {
  Duration after;
};
/// Call RunState::cut_off() for this process after kCutOffTimeout.
struct ArmCutOff {
  replica::ProcessId process{};
};
struct ReportDifference {
  replica::SendDifference difference;
};
struct ReportDeath {
  replica::ProcessId process{};
  std::string cause;
};
/// The run ends before its processes have ended. The text is the reason.
struct ReportEnd {
  std::string reason;
};
// The actions for the recovery of the process `process`. They come in this order: RequestFork, PassOnStreams,
// NoteFork, AdoptProcess. DropFork ends an attempt that has failed.
/// Make the descriptors for a new process, pass them to the parent, and send it a ForkRequest.
struct RequestFork {
  replica::ForkNumber request{};
  replica::ProcessId process{}, parent{};
};
/// Call RunState::fork_timed_out() for this request after kForkTimeout.
struct ArmFork {
  replica::ForkNumber request{};
  replica::ProcessId process{};
};
/// The parent was forked. The new process begins where the streams of the parent are now.
struct PassOnStreams {
  replica::ProcessId process{}, parent{};
};
/// Send ForkNoted to the parent, which waits for it. There is no PassOnStreams before it if the attempt has
/// ended.
struct NoteFork {
  replica::ForkNumber request{};
  replica::ProcessId parent{};
};
/// The new process has joined. Send it the start and the events that it lacks.
struct AdoptProcess {
  replica::ProcessId process{};
  std::uint32_t pid = 0;
  replica::Started started;
  std::vector<replica::NumberedEvent> events;
};
struct DropFork {
  replica::ProcessId process{};
};
/// Replicas are not replaced any more. The text is the reason. It is reported once.
struct ReportNoRespawn {
  std::string reason;
};
using Action = std::variant<StartProcess, Publish, SignalProcess, ArmKill, ArmCutOff, ReportDeath,
                            ReportDifference, ReportEnd, RequestFork, ArmFork, PassOnStreams, NoteFork,
                            AdoptProcess, DropFork, ReportNoRespawn>;

class RunState {
 public:
  /// If `respawns` is true, dead replicas are replaced. If `ignores_content` is true, the run goes on when a
  /// message of a replica differs from those of the others in its content only.
  explicit RunState(replica::Layout layout, bool respawns = false, bool ignores_content = false);

  void joined(const replica::Join& join);
  /// The process can be forked now, cannot be forked, or was forked.
  void fork_ready(replica::ProcessId process, replica::ForkNumber request);
  void fork_refused(replica::ProcessId process, const replica::ForkRefused& refused);
  void forked(replica::ProcessId process, replica::ForkNumber request);
  /// RequestFork could not be performed, or kForkTimeout has passed.
  void fork_failed(replica::ProcessId process, replica::ForkNumber request);
  /// The program has ended its part at this process.
  void done(replica::ProcessId process);
  /// The process has ended its Job in order.
  void finished(replica::ProcessId process, const replica::RunCounters& counters);
  /// A process has requested the end of the run with this exit code.
  void aborted(replica::ProcessId process, int code);
  /// The replicas of the rank of this process have not sent a message alike. The run ends.
  void differed(replica::ProcessId process, const replica::SendDifference& difference);
  /// The connection to a process has ended. Unless the process has finished, it cannot take part any more.
  void link_lost(replica::ProcessId process, const Error& cause);
  /// Kills a process whose connection has ended, if it has not exited.
  void cut_off(replica::ProcessId process);
  void exited(replica::ProcessId process, Exit exit);
  /// rdmc_run has received this signal, which requests its end. At the second one, the processes are killed
  /// at once.
  void interrupted(int signal);
  /// The run cannot go on, because rdmc_run itself has failed.
  void give_up(const std::string& reason);
  /// A process could not be started. Only the first `started` processes exist, and they are killed.
  void give_up_without(std::uint32_t started);
  /// Kills all processes that have not ended.
  void kill();

  /// The processes that can be killed without the loss of a rank: those of a program that has started, whose
  /// rank has another replica that has joined.
  std::vector<replica::ProcessId> spare() const;
  /// Kills a process, which must be one of spare().
  void inject_failure(replica::ProcessId process);

  std::vector<Action> take_actions();
  /// True if all processes have ended.
  bool is_over() const { return alive_ == 0; }
  /// True if the run ends because of a decision of this class or of an interrupt.
  bool is_ending() const { return is_ending_; }
  int exit_code() const;
  std::uint32_t alive() const { return alive_; }
  std::uint32_t deaths() const { return deaths_; }
  std::uint32_t respawns() const { return respawns_; }
  std::uint32_t injected() const { return injected_; }
  const replica::RunCounters& counters() const { return counters_; }
  /// The number of messages of which processes have told that the replicas have not sent them alike.
  std::size_t differences() const { return differences_.size(); }
  /// True if the process has ended in order.
  bool has_ended_well(replica::ProcessId process) const {
    const Process& one = processes_[value_of(process)];
    return one.has_ended && !one.has_died && !is_ending_;
  }

 private:
  struct Process {
    std::optional<Address> address;  ///< set while the process has joined and lives
    bool has_joined = false, is_done = false, has_finished = false, has_ended = false, has_died = false;
    std::string killed_because;  ///< why rdmc_run has killed it; empty if it has not
    std::string lost;            ///< why its connection has ended
    int code = 0;
    int failed_forks = 0;  ///< attempts to replace it, since it has died
  };
  /// An attempt to replace a process. A rank has one at a time.
  struct Attempt {
    enum class Step : std::uint8_t { requested, published, forked };
    replica::ForkNumber request{};
    replica::ProcessId process{}, parent{};
    Step step = Step::requested;
    replica::EventNumber recovery{};      ///< the number of the event, when it has been published
    std::optional<replica::Join> join{};  ///< the new process has joined before the parent has said so
  };

  Process& at(replica::ProcessId process) { return processes_[value_of(process)]; }
  void die(replica::ProcessId process, std::string cause);
  void end(int code, const std::string& reason);
  void start_if_all_are_there();
  void tell_if_all_are_done();
  void publish(replica::RunEvent event);
  void signal_all(int signal);
  replica::Started snapshot() const;
  // The following functions are in run_recovery.cpp.
  void replace_dead();
  void replace_dead_of(Rank rank);
  std::optional<replica::ProcessId> parent_for(const replica::ReplicaId& dead) const;
  Attempt* attempt_of(replica::ProcessId process, replica::ForkNumber request);
  void end_attempt(Rank rank, bool is_failure);
  void adopt(Rank rank, const replica::Join& join);
  void stop_respawns(const std::string& reason);

  const replica::Layout layout_;
  std::vector<Process> processes_;
  std::vector<Action> actions_;
  std::uint64_t last_event_ = 0;
  const bool keeps_events_, ignores_content_;
  bool respawns_dead_;
  std::vector<std::optional<Attempt>> attempts_;  ///< by rank
  std::uint64_t last_request_ = 0;
  std::vector<replica::NumberedEvent> events_;  ///< all of the run, for processes that join later
  std::uint32_t respawns_ = 0, injected_ = 0;
  bool is_joined_ = false;  ///< a process has joined
  bool has_started_ = false, are_all_done_ = false;
  bool is_ending_ = false;
  int end_code_ = 0;
  std::uint32_t alive_, deaths_ = 0;
  replica::RunCounters counters_;
  /// The rank, the context, the destination, the tag and the number of each message that differs. All
  /// replicas of a rank find the same differences.
  std::set<std::array<std::uint32_t, 5>> differences_;
};

}  // namespace rdmc::run
