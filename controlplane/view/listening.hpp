// The time in which this process has listened to its peers (the listening time). The silence of a peer counts
// only in this time. Messages arrive in sockets and on other threads than the thread that judges silence. So
// at intervals, the judging thread asks the other threads to hand over everything that has arrived. When
// they answer, it is certain that this process has listened up to the question, so the time before the
// question becomes listening time. A thread that gets no processor time hands nothing over, and does not
// answer either. This code does no I/O and reads no clock. Only one thread may use it.
#pragma once

#include <algorithm>
#include <cassert>
#include <optional>

#include "dataplane/base/types.hpp"

namespace rdmc::view {

class Listening {
 public:
  /// If more time than `max_step` passes between two questions, only `max_step` of it is listening time.
  explicit Listening(Duration max_step) : max_step_(max_step) {}

  /// Returns the listening time of a message that is heard at the local time `local`. Listening time never
  /// decreases.
  Time at(Time local) const { return proven_ + std::min(local - asked_, max_step_); }
  /// Returns the listening time of the last question that was answered. Everything that had arrived before
  /// this question has been handed over.
  Time proven() const { return proven_; }

  void ask(Time local) {
    assert(!pending_);
    pending_ = local;
  }
  bool is_asking() const { return pending_.has_value(); }
  /// True if no answer has arrived for so long that the listening threads cannot be running.
  bool is_late(Time local) const { return pending_ && local - *pending_ >= max_step_; }
  /// Notes the answer to the question. Returns false if the answer was late.
  bool answered(Time local) {
    assert(pending_);
    const bool soon = !is_late(local);
    proven_ = at(*pending_);
    asked_ = *pending_;
    pending_.reset();
    return soon;
  }
  /// Returns the local time of the last question that was answered.
  Time last_asked() const { return asked_; }
  /// Returns the local time at which the listening time `listening` is reached, if the listening threads
  /// continue to run.
  Time to_local(Time listening) const { return asked_ + (listening - proven_); }

 private:
  Duration max_step_;
  Time proven_{}, asked_{};
  std::optional<Time> pending_;
};

}  // namespace rdmc::view
