// The part of the RunState that replaces dead replicas. A rank has one attempt at a time:
//
// 1. RequestFork asks a living replica of the rank, the parent.
// 2. The parent answers when its program is inside of a call. Then the event Recovering goes to all
// processes.
// 3. The parent is forked, and says so. PassOnStreams gives the new process its place in the output and
// input.
// 4. The new process joins. From now on it counts, and the event Joined goes to all.
//
// If the parent dies before the end, or takes too long, the attempt has failed. If Recovering was published,
// the event Died for the process is published again.
#include <algorithm>
#include <utility>

#include "apps/run/run_state.hpp"

namespace rdmc::run {

using replica::ForkNumber;
using replica::ProcessId;

void RunState::replace_dead() {
  for (std::uint32_t rank = 0; rank < layout_.ranks(); ++rank) replace_dead_of(Rank{rank});
}

void RunState::replace_dead_of(Rank rank) {
  auto& attempt = attempts_[value_of(rank)];
  if (!respawns_dead_ || !has_started_ || is_ending_ || are_all_done_ || attempt) return;
  for (std::uint32_t replica = 0; replica < layout_.degree(rank); ++replica) {
    const ProcessId process = layout_.process({rank, replica});
    if (!at(process).has_died || at(process).failed_forks >= kMostForkAttempts) continue;
    const auto parent = parent_for({rank, replica});
    if (!parent) return;
    attempt = Attempt{.request = ForkNumber{++last_request_}, .process = process, .parent = *parent};
    actions_.push_back(RequestFork{attempt->request, process, *parent});
    return;
  }
}

/// Returns the next living replica. After failures, the one after it is chosen.
std::optional<ProcessId> RunState::parent_for(const replica::ReplicaId& dead) const {
  const std::uint32_t degree = layout_.degree(dead.rank);
  std::vector<ProcessId> living;
  for (std::uint32_t i = 1; i < degree; ++i) {
    const ProcessId process = layout_.process({dead.rank, (dead.replica + i) % degree});
    const Process& one = processes_[value_of(process)];
    if (one.has_joined && !one.has_ended && !one.has_finished) living.push_back(process);
  }
  if (living.empty()) return std::nullopt;
  const Process& one = processes_[value_of(layout_.process(dead))];
  return living[static_cast<std::size_t>(one.failed_forks) % living.size()];
}

/// Returns the attempt with this number, or null if it has ended. `process` is the parent or the process that
/// is replaced.
RunState::Attempt* RunState::attempt_of(ProcessId process, ForkNumber request) {
  auto& attempt = attempts_[value_of(layout_.rank(process))];
  const bool is_it =
      attempt && attempt->request == request && (attempt->parent == process || attempt->process == process);
  return is_it ? &*attempt : nullptr;
}

void RunState::fork_ready(ProcessId process, ForkNumber request) {
  Attempt* const attempt = attempt_of(process, request);
  if (attempt == nullptr || attempt->step != Attempt::Step::requested || is_ending_) return;
  attempt->step = Attempt::Step::published;
  attempt->recovery = replica::EventNumber{last_event_ + 1};
  publish(replica::Recovering{attempt->process, attempt->parent});
  actions_.push_back(ArmFork{request, attempt->process});
}

void RunState::fork_refused(ProcessId process, const replica::ForkRefused& refused) {
  if (attempt_of(process, refused.request) == nullptr) return;
  if (refused.is_final)
    stop_respawns("replica " + to_string(layout_.replica(process)) + ": " + refused.reason);
  fork_failed(process, refused.request);
}

void RunState::forked(ProcessId process, ForkNumber request) {
  Attempt* const attempt = attempt_of(process, request);
  if (attempt != nullptr && attempt->step != Attempt::Step::published) return;
  // If the attempt has ended meanwhile, the parent goes on, and the new process cannot join.
  if (attempt == nullptr) return actions_.push_back(NoteFork{request, process});
  attempt->step = Attempt::Step::forked;
  actions_.push_back(PassOnStreams{attempt->process, attempt->parent});
  actions_.push_back(NoteFork{request, attempt->parent});
  if (const auto join = std::exchange(attempt->join, std::nullopt)) adopt(layout_.rank(process), *join);
}

void RunState::fork_failed(ProcessId process, ForkNumber request) {
  if (attempt_of(process, request) == nullptr || is_ending_) return;
  const Rank rank = layout_.rank(process);
  end_attempt(rank, true);
  replace_dead_of(rank);
}

void RunState::end_attempt(Rank rank, bool is_failure) {
  const auto attempt = std::exchange(attempts_[value_of(rank)], std::nullopt);
  if (!attempt) return;
  actions_.push_back(DropFork{attempt->process});
  if (!is_failure) return;
  if (++at(attempt->process).failed_forks == kMostForkAttempts)
    stop_respawns("replica " + to_string(layout_.replica(attempt->process)) + ": " +
                  std::to_string(kMostForkAttempts) + " attempts have failed");
  if (attempt->step != Attempt::Step::requested)
    publish(replica::Died{attempt->process, "it could not be replaced"});
}

/// The new process has joined. Only the one of the present attempt can join (RunServer::expect).
void RunState::adopt(Rank rank, const replica::Join& join) {
  auto& attempt = attempts_[value_of(rank)];
  if (!attempt || attempt->process != join.process || attempt->recovery != join.recovery || is_ending_)
    return;
  if (attempt->step != Attempt::Step::forked) {
    attempt->join = join;
    return;
  }
  attempt.reset();
  at(join.process) = Process{.address = join.address, .has_joined = true};
  ++alive_;
  ++respawns_;
  const auto first = std::ranges::upper_bound(events_, join.last_event, {}, &replica::NumberedEvent::number);
  replica::Started started = snapshot();
  started.number = join.last_event;
  actions_.push_back(AdoptProcess{.process = join.process,
                                  .pid = join.pid,
                                  .started = std::move(started),
                                  .events = {first, events_.end()}});
  publish(replica::Joined{join.process, join.address});
  replace_dead_of(rank);
}

void RunState::stop_respawns(const std::string& reason) {
  if (std::exchange(respawns_dead_, false)) actions_.push_back(ReportNoRespawn{reason});
}

}  // namespace rdmc::run
