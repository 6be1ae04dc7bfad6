// The time in which this process has listened to its peers. The silence of a peer counts in this time only.
// Messages arrive in sockets and on other threads than the one that judges. So the judging thread asks from
// time to time that everything that has arrived is handed over. Only the time up to an answered question is
// proven, because a thread that gets no processor time hands nothing over and does not answer either. This
// code does no I/O and reads no clock; one thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <optional>

#include "dataplane/base/types.hpp"

namespace rdmc::view {

class Listening {
 public:
  /// `max_step` is the greatest time that counts between two questions.
  explicit Listening(Duration max_step) : max_step_(max_step) {}

  /// The listening time of a message that is heard at the local time `local`. Listening time never falls.
  Time at(Time local) const { return proven_ + std::min(local - asked_, max_step_); }
  /// Everything that arrived before this listening time has been heard.
  Time proven() const { return proven_; }

  void ask(Time local) {
    assert(!pending_);
    pending_ = local;
  }
  bool is_asking() const { return pending_.has_value(); }
  /// True if the answer is so late that the listening threads cannot be running.
  bool is_late(Time local) const { return pending_ && local - *pending_ >= max_step_; }
  /// Returns false if the answer was late.
  bool answered(Time local) {
    assert(pending_);
    const bool soon = !is_late(local);
    proven_ = at(*pending_);
    asked_ = *pending_;
    pending_.reset();
    return soon;
  }
  /// The local time of the last answered question.
  Time last_asked() const { return asked_; }
  /// The local time at which the listening time `listening` is reached, if the listening threads keep
  /// running.
  Time to_local(Time listening) const { return asked_ + (listening - proven_); }

 private:
  Duration max_step_;
  Time proven_{}, asked_{};
  std::optional<Time> pending_;
};

}  // namespace rdmc::view
