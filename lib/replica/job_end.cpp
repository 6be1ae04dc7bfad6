// The end of a Job: what the replicas have sent is compared, and rdmc_run learns of the end.
#include <utility>

#include "lib/replica/job_state.hpp"

namespace rdmc::replica {
namespace {

/// The longest time for which a process waits for the answer of rdmc_run.
constexpr Duration kFinishPatience = seconds(10);
/// A process tells rdmc_run of at most this number of differences between replicas.
constexpr int kMostDifferences = 100;

}  // namespace

// rdmc_run decides what happens then. The program may go on until it gets the answer.
void JobState::tell_differences() {
  for (const SendDifference& difference : messenger_->take_differences()) {
    if (first_difference_.empty()) first_difference_ = describe(difference);
    if (told_differences_ == kMostDifferences) continue;
    ++told_differences_;
    static_cast<void>(network_.run->differed(difference));
  }
}

// The process serves the others until the program has ended everywhere. If a replica dies before that, others
// may still need what this process has sent.
Result<void> JobState::finish() {
  Call call(*this);
  if (auto may = check(); !may) return may;
  if (send_log_)
    if (auto flushed = send_log_->flush(); !flushed) return flushed;
  if (network_.run) {
    // rdmc_run must learn of all differences before the program ends.
    messenger_->end_sends();
    while (!messenger_->are_sends_compared()) {
      turn(call, kLook);
      if (auto may = check(); !may) return may;
    }
    tell_differences();
    is_done_ = true;
    if (auto told = network_.run->done(); !told) return told;
    while (!are_all_done_) {
      turn(call, kLook);
      if (auto may = check(); !may) return may;
    }
    network_.links->close({Errc::cancelled, "the Job has been finished"});
  }
  end_ = Error{Errc::cancelled, "the Job has been finished"};
  if (!network_.run) return {};
  const auto& sent = messenger_->counters();
  return network_.run->finish({.messages = sent.messages,
                               .acknowledgements = sent.acknowledgements,
                               .syncs = 0,
                               .connections = network_.links->connections(),
                               .uncompared = messenger_->uncompared()},
                              kFinishPatience);
}

void JobState::abort(int code) {
  if (is_forked) return;
  {
    const Call call(*this);
    end_ = Error{Errc::cancelled, "the run has been aborted"};
    if (network_.links) network_.links->close(*end_);
  }
  if (network_.run) network_.run->abort(code, kFinishPatience);
}

JobCounters JobState::counters() const {
  const Call call(*this);
  const auto& sent = messenger_->counters();
  return {.messages = sent.messages,
          .acknowledgements = sent.acknowledgements,
          .syncs = 0,
          .connections = network_.links ? network_.links->connections() : 0,
          .unexpected = sent.unexpected,
          .bytes_sent = sent.bytes_sent,
          .bytes_received = sent.bytes_received};
}

}  // namespace rdmc::replica
