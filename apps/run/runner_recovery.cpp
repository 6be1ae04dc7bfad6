// The part of the Runner that performs recoveries, and that waits for processes which nobody else waits for.
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "apps/run/runner.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::run {

using replica::EventNumber;
using replica::ProcessId;

void Runner::act(Publish& action) {
  if (const auto* const recovering = std::get_if<replica::Recovering>(&action.event.event))
    server_->expect(recovering->process, action.event.number);
  server_->send(std::move(action.event));
}

void Runner::act(const RequestFork& action) {
  const std::uint32_t number = value_of(action.process);
  auto streams = make_streams(processes_[number].id.rank == Rank{0});
  auto made = streams ? add_fork_socket(*streams) : Result<void>(std::unexpected(streams.error()));
  if (made)
    made = replica::pass_descriptors(processes_[value_of(action.parent)].child.fork_socket.get(),
                                     action.request, streams->passed);
  if (!made) return state_.fork_failed(action.process, action.request);
  new_processes_[number] = {.child = std::move(streams->child)};
  server_->tell(action.parent, replica::ForkRequest{action.request, action.process});
}

void Runner::act(const ArmFork& action) {
  deadlines_.push_back({monotonic_now() + kForkTimeout,
                        [this, action] { state_.fork_failed(action.process, action.request); }});
}

/// The parent does not use its streams before it gets the answer.
void Runner::act(const PassOnStreams& action) {
  const std::uint32_t number = value_of(action.process), parent = value_of(action.parent);
  while (read_output(parent)) {
  }
  finish_output(number);
  const auto found = new_processes_.find(number);
  // If the parent has closed its output, the new process has nothing to add.
  if (found != new_processes_.end() && processes_[parent].child.output) {
    mergers_[value_of(processes_[number].id.rank)].reopen(processes_[number].id.replica,
                                                          processes_[parent].id.replica);
    found->second.has_streams = true;
  }
  if (found != new_processes_.end() && found->second.child.input)
    input_->copy(number, parent, std::move(found->second.child.input));
}

void Runner::act(AdoptProcess& action) {
  const std::uint32_t number = value_of(action.process);
  Process& process = processes_[number];
  auto adopted = new_processes_.extract(number);
  const double milliseconds = (monotonic_now() - process.ended_at).seconds() * 1000;
  Child child = std::move(adopted.mapped().child);
  if (!watch_process(child, static_cast<pid_t>(action.pid)))
    return state_.exited(action.process, {true, SIGKILL});
  process = {.id = process.id, .child = std::move(child)};
  if (adopted.mapped().has_streams)
    ++open_pipes_;
  else
    process.child.output.reset();
  ++open_pipes_;
  guardian_.watch(process.child.pid);
  poller_.add(process.child.process.get(), EPOLLIN, [this, number] { on_end(number); });
  server_->start(action.process, std::move(action.started));
  for (replica::NumberedEvent& event : action.events) server_->tell(action.process, std::move(event));
  reporter_.started(process.id, process.child.pid, milliseconds);
}

void Runner::act(const DropFork& action) {
  const std::uint32_t number = value_of(action.process);
  server_->expect(action.process, EventNumber{~std::uint64_t{0}});
  server_->forget(action.process);
  const auto dropped = new_processes_.extract(number);
  if (dropped.empty()) return;
  if (input_) input_->remove(number);
  if (!dropped.mapped().has_streams) return;
  const replica::ReplicaId& id = processes_[number].id;
  mergers_[value_of(id.rank)].close(id.replica, false);
  print_merged(id.rank);
}

void Runner::act(const ReportNoRespawn& action) {
  reporter_.report("dead replicas are not replaced any more: " + action.reason);
}

/// Ends the zombies of processes that were children of the run's processes. The run's own processes are left
/// to on_end(), and the guardian is left to its owner.
void Runner::reap_orphans() {
  siginfo_t info{};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    const auto found = std::ranges::find_if(
        processes_, [&](const Process& one) { return !one.has_ended && one.child.pid == info.si_pid; });
    if (found != processes_.end())
      on_end(static_cast<std::uint32_t>(found - processes_.begin()));
    else if (info.si_pid == guardian_.pid())
      return;
    else
      ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED);
    info = {};
  }
}

}  // namespace rdmc::run
