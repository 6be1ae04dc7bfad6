#include "apps/run/runner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "apps/program/output.hpp"
#include "controlplane/auth/random.hpp"
#include "controlplane/peer/identity.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/replica/assignment.hpp"

namespace rdmc::run {

using replica::ProcessId;

static_assert(kTerminateSignal == SIGTERM && kKillSignal == SIGKILL);

namespace {

/// The time that the output gets to be read after an interrupt, when all processes have ended.
constexpr Duration kOutputTimeout = seconds(1);
/// The time that the kernel gets to end a process whose end has begun.
constexpr int kEarlierDeathTimeoutMs = 1000;

Result<std::string> random_name() {
  std::array<std::byte, 16> bytes;
  if (auto filled = control::fill_random(bytes); !filled) return std::unexpected(filled.error());
  std::string name;
  for (const std::byte byte : bytes) name += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return name;
}

}  // namespace

Result<ProcessSettings> prepare_process() {
  ProcessSettings before;
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) ::sigaddset(&signals, signal);
  // A replica that is forked becomes a child of this process.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail_errno("prctl", errno);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before.signal_mask);
  before.signals = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!before.signals) return fail_errno("signalfd", errno);
  before.ignores_broken_pipes = ::signal(SIGPIPE, SIG_IGN) == SIG_IGN;
  ::getrlimit(RLIMIT_NOFILE, &before.descriptors);
  // A run needs three descriptors and a connection for each process.
  const rlimit most{before.descriptors.rlim_max, before.descriptors.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
  return before;
}

Result<std::unique_ptr<Runner>> Runner::create(const RunOptions& options, const ProcessSettings& settings,
                                               Guardian& guardian) {
  auto poller = Poller::create();
  if (!poller) return std::unexpected(std::move(poller.error()));
  Descriptor woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken) return fail_errno("eventfd", errno);
  auto reporter =
      Reporter::start({options.json, options.label}, [fd = woken.get()] { ::eventfd_write(fd, 1); });
  if (!reporter) return std::unexpected(std::move(reporter.error()));
  std::unique_ptr<Runner> runner(
      new Runner(options, settings, guardian, std::move(*poller), std::move(*reporter)));
  runner->woken_ = std::move(woken);
  return runner;
}

Runner::Runner(const RunOptions& options, const ProcessSettings& settings, Guardian& guardian, Poller poller,
               Reporter reporter)
    : options_(options),
      settings_(settings),
      guardian_(guardian),
      poller_(std::move(poller)),
      reporter_(std::move(reporter)),
      state_(options.layout, options.respawns, options.ignores_content),
      has_said_difference_(options.layout.ranks()) {
  for (std::uint32_t rank = 0; rank < options.layout.ranks(); ++rank)
    mergers_.emplace_back(options.layout.degree(Rank{rank}));
}

Runner::~Runner() {
  server_.reset();  // Its handlers use the members that are destroyed next.
  if (folder_) remove_record(*folder_, ::getpid());
}

/// Runs `task` on the main thread. Any thread may call this function.
void Runner::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
  }
  ::eventfd_write(woken_.get(), 1);
}

void Runner::run_posted() {
  eventfd_t ignored;
  ::eventfd_read(woken_.get(), &ignored);
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks = std::exchange(posted_, {});
  }
  for (const auto& task : tasks) task();
}

Result<void> Runner::open_server() {
  const auto name = random_name();
  if (!name) return std::unexpected(name.error());
  const auto key = control::ClusterKey::generate();
  if (!key) return std::unexpected(key.error());
  const auto shared = key->share();
  if (!shared) return std::unexpected(shared.error());
  key_ = Descriptor(::fcntl(shared->get(), F_DUPFD_CLOEXEC, kFirstPassedDescriptor));
  if (!key_) return fail_errno("cannot pass on the key", errno);
  replica::RunServer::Handlers handlers{
      .joined = [this](const replica::Join& join) { post([this, join] { state_.joined(join); }); },
      .done = [this](ProcessId process) { post([this, process] { state_.done(process); }); },
      .finished =
          [this](ProcessId process, const replica::RunCounters& counters) {
            post([this, process, counters] { state_.finished(process, counters); });
          },
      .aborted = [this](ProcessId process,
                        int code) { post([this, process, code] { state_.aborted(process, code); }); },
      .fork_ready =
          [this](ProcessId process, const replica::ForkReady& ready) {
            post([this, process, ready] { state_.fork_ready(process, ready.request); });
          },
      .fork_refused =
          [this](ProcessId process, const replica::ForkRefused& refused) {
            post([this, process, refused] { state_.fork_refused(process, refused); });
          },
      .forked =
          [this](ProcessId process, const replica::Forked& forked) {
            post([this, process, forked] { state_.forked(process, forked.request); });
          },
      .differed =
          [this](ProcessId process, const replica::SendDifference& difference) {
            post([this, process, difference] { state_.differed(process, difference); });
          },
      .lost =
          [this](ProcessId process, const Error& cause) {
            post([this, process, cause] { state_.link_lost(process, cause); });
          }};
  auto server = replica::RunServer::open(options_.layout, *name, Address::ipv4(127, 0, 0, 1, 0), *key,
                                         context_, std::move(handlers));
  if (!server) return std::unexpected(std::move(server.error()));
  server_ = std::move(*server);
  record_.program = fmt::format("{}", fmt::join(options_.command, " "));
  assignment_ = {.layout = options_.layout,
                 .self = {},
                 .protocol = options_.protocol,
                 .options = options_.settings,
                 .launcher = server_->address(),
                 .run = *name,
                 .key_descriptor = key_.get()};
  return {};
}

Result<void> Runner::spawn_all() {
  SpawnPlan plan{.command = options_.command,
                 .environment = {},
                 .key_descriptor = key_.get(),
                 .signal_mask = settings_.signal_mask,
                 .ignores_broken_pipes = settings_.ignores_broken_pipes,
                 .descriptors = settings_.descriptors};
  input_ = std::make_unique<InputFeed>(poller_, STDIN_FILENO, [this](const Error& error) {
    post([this, error] { state_.give_up(error.what); });
  });
  processes_.reserve(options_.layout.processes());
  for (std::uint32_t number = 0; number < options_.layout.processes(); ++number) {
    assignment_.self = options_.layout.replica(ProcessId{number});
    auto streams = make_streams(assignment_.self.rank == Rank{0});
    if (!streams) return std::unexpected(streams.error());
    if (options_.respawns && options_.layout.degree(assignment_.self.rank) > 1)
      if (auto added = add_fork_socket(*streams); !added) return added;
    plan.fork_descriptor = assignment_.fork_descriptor = streams->passed.socket.get();
    const auto variables = variables_of(assignment_);
    if (!variables) return std::unexpected(variables.error());
    plan.environment = environment_with(*variables);
    auto child = spawn(plan, std::move(*streams));
    if (!child) return std::unexpected(std::move(child.error()));
    guardian_.watch(child->pid);
    if (child->input) input_->add(number, std::move(child->input));
    reporter_.started(assignment_.self, child->pid);
    processes_.push_back({.id = assignment_.self, .child = std::move(*child)});
    open_pipes_ += 2;
    poller_.add(processes_.back().child.process.get(), EPOLLIN, [this, number] { on_end(number); });
  }
  return {};
}

int Runner::run() {
  const Time begin = monotonic_now();
  poller_.add(woken_.get(), EPOLLIN, [this] { run_posted(); });
  poller_.add(settings_.signals.get(), EPOLLIN, [this] { on_signal(); });
  auto started = open_server();
  if (started) started = spawn_all();
  if (!started) {
    reporter_.report(started.error().what);
    state_.give_up_without(static_cast<std::uint32_t>(processes_.size()));
  } else {
    input_->begin();
    auto folder = runs_folder();
    if (folder)
      folder_ = std::move(*folder);
    else
      reporter_.report("'rdmc_run ps' does not list this run: " + folder.error().what);
    record_.ranks = options_.layout.ranks();
    record_.replicas = options_.layout.processes();
    record_.pid = ::getpid();
    record_.started = ::time(nullptr);
    record_.start_ticks = peer::start_of_process(std::to_string(record_.pid));
  }
  if (options_.failures) {
    failures_.emplace(*options_.failures);
    plan_failure();
  }
  for (;;) {
    perform();
    watch_all_pipes();
    reporter_.flush();
    if (is_over()) break;
    poller_.wait(input_ && input_->is_ready() ? 0 : next_timeout_ms());
    if (input_ && input_->is_ready()) input_->turn();
    run_deadlines();
  }
  input_.reset();
  reporter_.summary(state_.exit_code(), state_, differing_, (monotonic_now() - begin).seconds());
  reporter_.flush();
  return state_.exit_code();
}

void Runner::on_signal() {
  signalfd_siginfo info;
  while (::read(settings_.signals.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap_orphans();
      continue;
    }
    if (signal != SIGUSR1 && signal != SIGUSR2) {
      was_interrupted_ = true;
      state_.interrupted(signal);
      continue;
    }
    for (const Process& process : processes_)
      if (!process.has_ended) ::kill(-process.child.pid, signal);
  }
}

/// A process has ended. What it has sent before on its connection is processed first.
void Runner::on_end(std::uint32_t number) {
  run_posted();
  Process& process = processes_[number];
  siginfo_t info{};
  const auto pidfd = static_cast<id_t>(process.child.process.get());
  if (::waitid(P_PIDFD, pidfd, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid == 0) return;
  if (info.si_code == CLD_EXITED && info.si_status != 0) process_earlier_deaths();
  // The process still exists as a zombie, so the number of its group cannot belong to other processes yet.
  ::kill(-process.child.pid, SIGKILL);
  guardian_.forget(process.child.pid);
  poller_.remove(process.child.process.get());
  ::waitid(P_PIDFD, pidfd, &info, WEXITED);
  process.has_ended = true;
  process.ended_at = monotonic_now();
  if (input_) input_->remove(number);
  state_.exited(ProcessId{number}, {info.si_code != CLD_EXITED, info.si_status});
  if (server_) server_->forget(ProcessId{number});
}

/// A process has exited with an error. Perhaps it has done so because another one had died before. It notices
/// that when the connections close, and on a busy machine this process learns of the other death only later.
/// So the deaths that have begun come first, and the run names the right rank.
void Runner::process_earlier_deaths() {
  if (is_processing_earlier_ || state_.is_ending()) return;
  is_processing_earlier_ = true;
  for (std::uint32_t number = 0; number < processes_.size(); ++number) {
    const Process& other = processes_[number];
    if (other.has_ended || !is_exiting(other.child.pid)) continue;
    const int pidfd = other.child.process.get();
    const auto id = static_cast<id_t>(pidfd);
    siginfo_t info{};
    ::waitid(P_PIDFD, id, &info, WEXITED | WNOWAIT | WNOHANG);
    // The poller calls for those that have exited in the order of their ends.
    if (info.si_pid != 0 && info.si_code == CLD_EXITED) continue;
    pollfd waited{pidfd, POLLIN, 0};
    ::poll(&waited, 1, kEarlierDeathTimeoutMs);
    on_end(number);
  }
  is_processing_earlier_ = false;
}

void Runner::perform() {
  for (auto actions = state_.take_actions(); !actions.empty(); actions = state_.take_actions())
    for (Action& action : actions) std::visit([this](auto& one) { act(one); }, action);
  note_record();
}

void Runner::act(const SignalProcess& action) {
  const Process& process = processes_[value_of(action.process)];
  if (process.has_ended) return;
  ::kill(-process.child.pid, action.signal);
}
void Runner::act(const ArmKill& action) {
  deadlines_.push_back({monotonic_now() + action.after, [this] { state_.kill(); }});
}
void Runner::act(const ArmCutOff& action) {
  deadlines_.push_back(
      {monotonic_now() + kCutOffTimeout, [this, process = action.process] { state_.cut_off(process); }});
}
void Runner::act(const ReportDeath& action) {
  const Process& process = processes_[value_of(action.process)];
  reporter_.died(process.id, process.child.pid, action.cause);
}

/// Kills a replica after a while, and again, as --inject-failures wants it.
void Runner::plan_failure() {
  const auto after = failures_->next();
  if (!after || state_.is_over()) return;
  deadlines_.push_back({monotonic_now() + *after, [this] {
                          if (const auto process = failures_->choose(state_.spare()))
                            state_.inject_failure(*process);
                          plan_failure();
                        }});
}

/// True if all processes have ended and all that they wrote was read. After an interrupt, the output does not
/// wait for a reader that has stopped reading.
bool Runner::is_over() {
  if (!state_.is_over()) return false;
  if (open_pipes_ == 0 || gives_up_output_) return true;
  if (was_interrupted_ && !std::exchange(is_output_due_, true))
    deadlines_.push_back({monotonic_now() + kOutputTimeout, [this] { gives_up_output_ = true; }});
  return false;
}

int Runner::next_timeout_ms() const {
  if (deadlines_.empty()) return -1;
  const Time next = std::ranges::min(deadlines_, {}, &Deadline::when).when;
  return static_cast<int>(std::max<std::int64_t>(0, (next - monotonic_now()).ns / 1'000'000 + 1));
}

void Runner::run_deadlines() {
  const Time now = monotonic_now();
  const auto due =
      std::ranges::stable_partition(deadlines_, [&](const Deadline& one) { return one.when > now; });
  const std::vector<Deadline> tasks(due.begin(), due.end());
  deadlines_.erase(due.begin(), due.end());
  for (const Deadline& one : tasks) one.task();
}

/// Writes the record for `rdmc_run ps` if something has changed.
void Runner::note_record() {
  if (!folder_ || record_.alive == state_.alive()) return;
  record_.alive = state_.alive();
  (void)write_record(*folder_, record_);  // Without the record, only the list misses this run.
}

}  // namespace rdmc::run
