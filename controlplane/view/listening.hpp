// The time in which this process has listened to its peers. What a peer keeps silent counts by this time
// only. Messages arrive on other threads and in sockets than the one that judges, so the judge asks now and
// then that everything that has arrived is handed over ("drained"), and only the time up to an answered
// question is proven: a thread that gets no processor hands nothing over and does not answer either. Pure;
// one thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <optional>

#include "dataplane/base/types.hpp"

namespace rdmc::view {

class Listening {
 public:
  /// `max_step`: what may count of the time between two questions.
  explicit Listening(Duration max_step) : max_step_(max_step) {}

  /// The listening time of something that is heard at the local time `local`, which never falls.
  Time at(Time local) const { return proven_ + std::min(local - asked_, max_step_); }
  /// Everything that arrived before this listening time has been heard.
  Time proven() const { return proven_; }

  void ask(Time local) {
    assert(!pending_);
    pending_ = local;
  }
  bool is_asking() const { return pending_.has_value(); }
  /// The answer takes so long that whoever listens cannot be running.
  bool is_late(Time local) const { return pending_ && local - *pending_ >= max_step_; }
  /// False: it was late.
  bool answered(Time local) {
    assert(pending_);
    const bool soon = !is_late(local);
    proven_ = at(*pending_);
    asked_ = *pending_;
    pending_.reset();
    return soon;
  }
  /// When the last answered question was asked, in local time.
  Time last_asked() const { return asked_; }
  /// The local time at which `listening` is reached if whoever listens goes on running.
  Time to_local(Time listening) const { return asked_ + (listening - proven_); }

 private:
  Duration max_step_;
  Time proven_{}, asked_{};
  std::optional<Time> pending_;
};

}  // namespace rdmc::view
