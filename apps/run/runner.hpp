// Runs a program: starts its processes, watches them, and performs what the cores decide (RunState,
// OutputMerger). All of this happens on the main thread, in one epoll loop. The control loop of the Context
// accepts the connections of the processes, and passes their messages on to the main thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/failure_plan.hpp"
#include "apps/run/guardian.hpp"
#include "apps/run/input_feed.hpp"
#include "apps/run/options.hpp"
#include "apps/run/output_merger.hpp"
#include "apps/run/poller.hpp"
#include "apps/run/reporter.hpp"
#include "apps/run/run_state.hpp"
#include "apps/run/runs_folder.hpp"
#include "apps/run/spawn.hpp"
#include "lib/replica/assignment.hpp"
#include "lib/replica/run_server.hpp"

namespace rdmc::run {

/// The state of the process before rdmc_run changes it for its own work.
struct ProcessSettings {
  sigset_t signal_mask{};
  bool ignores_broken_pipes = false;
  rlimit descriptors{};
  Descriptor signals;  ///< a signalfd for the signals that end the run or are passed on
};

/// Blocks the signals, ignores SIGPIPE, and raises the limit of descriptors. Must be called before there are
/// other threads. Errors: resource_limit.
Result<ProcessSettings> prepare_process();

class Runner {
 public:
  /// Errors: those of the parts. The references must stay valid.
  static Result<std::unique_ptr<Runner>> create(const RunOptions& options, const ProcessSettings& settings,
                                                Guardian& guardian);
  ~Runner();

  /// Runs the program until all its processes have ended. Returns the exit code.
  int run();
  /// True if a signal has ended the run. The last output must then not wait for its reader.
  bool was_interrupted() const { return was_interrupted_; }

 private:
  /// One process of the run.
  struct Process {
    replica::ReplicaId id;
    Child child;
    std::string error_text;                           ///< the beginning of a line of its standard error
    bool reads_output = false, reads_errors = false;  ///< the poller watches the pipe
    bool has_ended = false;
    Time ended_at{};
  };
  /// The streams of a process that will take the place of a dead one.
  struct NewProcess {
    Child child;
    bool has_streams = false;  ///< it has its place in the output
  };
  struct Deadline {
    Time when;
    std::function<void()> task;
  };

  Runner(const RunOptions& options, const ProcessSettings& settings, Guardian& guardian, Poller poller,
         Reporter reporter);
  // runner.cpp
  Result<void> open_server();
  Result<void> spawn_all();
  void post(std::function<void()> task);
  void run_posted();
  void on_signal();
  void on_end(std::uint32_t process);
  void process_earlier_deaths();
  void perform();
  void act(StartProcess& action) { server_->start(action.process, std::move(action.started)); }
  void act(Publish& action);
  void act(const SignalProcess& action);
  void act(const ArmKill& action);
  void act(const ArmCutOff& action);
  void act(const ReportDeath& action);
  void act(const ReportDifference& action) { reporter_.differs(action.difference); }
  void act(const ReportEnd& action) { reporter_.report(action.reason); }
  void plan_failure();
  // runner_recovery.cpp
  void act(const RequestFork& action);
  void act(const ArmFork& action);
  void act(const PassOnStreams& action);
  void act(const NoteFork& action) { server_->tell(action.parent, replica::ForkNoted{action.request}); }
  void act(AdoptProcess& action);
  void act(const DropFork& action);
  void act(const ReportNoRespawn& action);
  void reap_orphans();
  bool is_over();
  int next_timeout_ms() const;
  void run_deadlines();
  void note_record();
  // runner_output.cpp
  void watch_pipes(std::uint32_t process);
  void watch_all_pipes();
  bool read_output(std::uint32_t process);
  void finish_output(std::uint32_t process);
  void read_errors(std::uint32_t process);
  void take_error_text(Process& process, std::string_view bytes);
  void close_output(std::uint32_t process);
  void close_errors(std::uint32_t process);
  void print_merged(Rank rank);

  const RunOptions& options_;
  const ProcessSettings& settings_;
  Guardian& guardian_;
  Poller poller_;
  Reporter reporter_;
  RunState state_;
  std::optional<FailurePlan> failures_;
  std::vector<OutputMerger> mergers_;  ///< one for each rank
  std::vector<Process> processes_;
  std::map<std::uint32_t, NewProcess> new_processes_;
  std::uint32_t open_pipes_ = 0;
  std::uint64_t differing_ = 0;
  std::vector<char> has_said_difference_;  ///< for each rank
  bool is_processing_earlier_ = false;     ///< process_earlier_deaths() runs
  bool is_output_closed_ = false, was_interrupted_ = false;
  bool is_output_due_ = false, gives_up_output_ = false;  ///< used after an interrupt
  std::vector<Deadline> deadlines_;
  std::optional<std::filesystem::path> folder_;
  RunRecord record_;
  std::unique_ptr<InputFeed> input_;

  Descriptor key_, woken_;
  replica::Assignment assignment_;  ///< of the process that is started next
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  ///< protected by mutex_
  peer::Context context_;
  std::unique_ptr<replica::RunServer> server_;
};

}  // namespace rdmc::run
