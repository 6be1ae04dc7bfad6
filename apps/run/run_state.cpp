#include "apps/run/run_state.hpp"

#include <string.h>

#include <algorithm>
#include <utility>

namespace rdmc::run {

using replica::ProcessId;

namespace {

std::string cause_of(const Exit& exit, bool has_joined) {
  if (exit.by_signal) {
    const char* const name = ::sigabbrev_np(exit.value);
    return "killed by signal " + std::to_string(exit.value) +
           (name == nullptr ? std::string() : " (SIG" + std::string(name) + ")");
  }
  const std::string how = exit.value == 0 ? "exited" : "exited with code " + std::to_string(exit.value);
  return how + (has_joined ? " without finishing" : " without joining");
}

}  // namespace

RunState::RunState(replica::Layout layout, bool respawns, bool ignores_content)
    : layout_(std::move(layout)),
      processes_(layout_.processes()),
      keeps_events_(respawns),
      ignores_content_(ignores_content),
      respawns_dead_(respawns),
      attempts_(layout_.ranks()),
      alive_(layout_.processes()) {}

void RunState::joined(const replica::Join& join) {
  const ProcessId process = join.process;
  if (value_of(join.recovery) != 0) return adopt(layout_.rank(process), join);
  Process& one = at(process);
  if (one.has_ended || one.has_joined) return;
  one.has_joined = true;
  one.address = join.address;
  if (!std::exchange(is_joined_, true)) {
    // Now it is known that the program has ranks. So the processes that have exited before do not take part.
    for (std::uint32_t i = 0; i < layout_.processes(); ++i) {
      const Process& early = processes_[i];
      if (early.has_ended && !early.has_died) die(ProcessId{i}, cause_of({false, early.code}, false));
    }
  }
  start_if_all_are_there();
}

void RunState::start_if_all_are_there() {
  if (has_started_ || !is_joined_ || is_ending_) return;
  const auto is_there = [](const Process& one) { return one.has_joined || one.has_ended; };
  if (!std::ranges::all_of(processes_, is_there)) return;
  has_started_ = true;
  for (std::uint32_t i = 0; i < layout_.processes(); ++i)
    if (!processes_[i].has_ended) actions_.push_back(StartProcess{ProcessId{i}, snapshot()});
  replace_dead();
}

replica::Started RunState::snapshot() const {
  replica::Started all{replica::EventNumber{last_event_}, {}};
  for (const Process& one : processes_) all.addresses.push_back(one.has_ended ? std::nullopt : one.address);
  return all;
}

void RunState::done(ProcessId process) {
  at(process).is_done = true;
  tell_if_all_are_done();
}

void RunState::tell_if_all_are_done() {
  if (!has_started_ || are_all_done_) return;
  const auto is_done = [](const Process& one) { return one.is_done || one.has_ended; };
  are_all_done_ = std::ranges::all_of(processes_, is_done);
  if (!are_all_done_) return;
  publish(replica::AllDone{});
  for (std::uint32_t rank = 0; rank < layout_.ranks(); ++rank) end_attempt(Rank{rank}, false);
}

void RunState::finished(ProcessId process, const replica::RunCounters& counters) {
  Process& one = at(process);
  if (one.has_ended || std::exchange(one.has_finished, true)) return;
  done(process);
  counters_.messages += counters.messages;
  counters_.acknowledgements += counters.acknowledgements;
  counters_.syncs += counters.syncs;
  counters_.connections += counters.connections;
  counters_.uncompared += counters.uncompared;
}

void RunState::aborted(ProcessId process, int code) {
  if (is_ending_ || at(process).has_ended) return;
  end(code, "replica " + to_string(layout_.replica(process)) + " has aborted the run with exit code " +
                std::to_string(code));
}

void RunState::differed(ProcessId process, const replica::SendDifference& difference) {
  const Rank rank = layout_.rank(process);
  const auto& [context, to, tag] = difference.channel;
  const bool is_possible = difference.source == rank && value_of(to) < layout_.ranks() &&
                           std::ranges::all_of(difference.versions, [&](const auto& version) {
                             return version.replica < layout_.degree(rank);
                           });
  if (is_ending_ || at(process).has_ended || !is_possible) return;
  const bool is_new = differences_
                          .insert({value_of(rank), static_cast<std::uint32_t>(context), value_of(to),
                                   static_cast<std::uint32_t>(tag), difference.sequence})
                          .second;
  if (!is_new) return;
  actions_.push_back(ReportDifference{difference});
  if (ignores_content_ && difference.is_in_content()) return;
  end(kDiffers, "the run ends, because the replicas of rank " + std::to_string(value_of(rank)) +
                    " have not sent the same");
}

void RunState::link_lost(ProcessId process, const Error& cause) {
  Process& one = at(process);
  if (one.has_ended || one.has_finished || is_ending_) return;
  one.lost = cause.what;
  actions_.push_back(ArmCutOff{process});
}

void RunState::cut_off(ProcessId process) {
  Process& one = at(process);
  // If another process has its place now, that one has lost nothing.
  if (one.has_ended || one.has_finished || is_ending_ || one.lost.empty()) return;
  // The process must not go on without the others.
  one.killed_because = "its connection to rdmc_run had ended: " + one.lost;
  actions_.push_back(SignalProcess{process, kKillSignal});
}

std::vector<ProcessId> RunState::spare() const {
  std::vector<ProcessId> spare;
  if (!has_started_ || are_all_done_ || is_ending_) return spare;
  for (std::uint32_t rank = 0; rank < layout_.ranks(); ++rank) {
    std::vector<ProcessId> living;
    for (std::uint32_t i = 0; i < layout_.degree(Rank{rank}); ++i) {
      const ProcessId process = layout_.process({Rank{rank}, i});
      const Process& one = processes_[value_of(process)];
      // A process that was killed, or that has lost its connection, may not have exited yet.
      if (one.has_joined && !one.has_ended && !one.has_finished && one.killed_because.empty() &&
          one.lost.empty())
        living.push_back(process);
    }
    if (living.size() > 1) spare.insert(spare.end(), living.begin(), living.end());
  }
  return spare;
}

void RunState::inject_failure(ProcessId process) {
  at(process).killed_because = "--inject-failures has chosen it";
  ++injected_;
  actions_.push_back(SignalProcess{process, kKillSignal});
}

void RunState::exited(ProcessId process, Exit exit) {
  Process& one = at(process);
  if (std::exchange(one.has_ended, true)) return;
  --alive_;
  one.code = exit.by_signal ? 0 : exit.value;
  // The other processes may be waiting in finish() until the program has ended everywhere.
  if (is_ending_) return tell_if_all_are_done();
  if (exit.by_signal || (is_joined_ && !one.has_finished)) {
    std::string cause = cause_of(exit, one.has_joined);
    if (!one.killed_because.empty()) cause += ", because " + one.killed_because;
    die(process, std::move(cause));
  }
  start_if_all_are_there();
  tell_if_all_are_done();
  replace_dead();
}

void RunState::die(ProcessId process, std::string cause) {
  at(process).has_died = true;
  ++deaths_;
  actions_.push_back(ReportDeath{process, cause});
  if (is_ending_) return;
  publish(replica::Died{process, std::move(cause)});
  const Rank rank = layout_.rank(process);
  if (const auto& attempt = attempts_[value_of(rank)]; attempt && attempt->parent == process)
    end_attempt(rank, true);
  for (std::uint32_t i = 0; i < layout_.degree(rank); ++i)
    if (!at(layout_.process({rank, i})).has_died) return;
  end(kLost, "rank " + std::to_string(value_of(rank)) + " is lost, because all its replicas have died");
}

void RunState::end(int code, const std::string& reason) {
  is_ending_ = true;
  end_code_ = code;
  actions_.push_back(ReportEnd{reason});
  publish(replica::Aborted{code});
  signal_all(kTerminateSignal);
  actions_.push_back(ArmKill{kEndTimeout});
}

void RunState::interrupted(int signal) {
  if (is_ending_) return kill();
  is_ending_ = true;
  end_code_ = kInterrupted;
  actions_.push_back(ReportEnd{"interrupted"});
  // The run is not aborted, so that a program which handles the signal can still finish in order.
  signal_all(signal);
  actions_.push_back(ArmKill{kInterruptTimeout});
}

void RunState::give_up(const std::string& reason) {
  if (!is_ending_) end(kCannotStart, reason);
}

void RunState::give_up_without(std::uint32_t started) {
  is_ending_ = true;
  end_code_ = kCannotStart;
  for (std::uint32_t i = started; i < layout_.processes(); ++i) processes_[i].has_ended = true;
  alive_ = started;
  kill();
}

void RunState::kill() {
  signal_all(kKillSignal);
}

void RunState::signal_all(int signal) {
  for (std::uint32_t i = 0; i < layout_.processes(); ++i)
    if (!processes_[i].has_ended) actions_.push_back(SignalProcess{ProcessId{i}, signal});
}

void RunState::publish(replica::RunEvent event) {
  const replica::NumberedEvent numbered{replica::EventNumber{++last_event_}, std::move(event)};
  if (keeps_events_) events_.push_back(numbered);
  actions_.push_back(Publish{numbered});
}

std::vector<Action> RunState::take_actions() {
  return std::exchange(actions_, {});
}

int RunState::exit_code() const {
  if (is_ending_) return end_code_;
  int highest = 0;
  for (const Process& one : processes_)
    if (!one.has_died) highest = std::max(highest, one.code);
  return highest;
}

}  // namespace rdmc::run
