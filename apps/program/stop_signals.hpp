// Makes SIGINT, SIGTERM and SIGHUP events, for which the main thread waits while it also waits for the end of
// its work. No signal handler runs, so no code is interrupted. The object must be made before any other
// thread is started, because threads inherit the blocked signals. When only clean-up and output remain,
// end_within() restores the effect of the signals. So neither a hung disk nor a reader that has stopped
// reading can keep the process alive.
#pragma once

#include <cstdint>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc {

class StopSignals {
 public:
  enum class Event : std::uint8_t {
    signal,    ///< a signal asks the process to stop
    notified,  ///< notify() was called
    hung_up,   ///< the other end of `watched` has been closed
  };

  /// Blocks the signals in the calling thread. Errors: resource_limit.
  static Result<StopSignals> block();
  /// Waits for the next event. `watched` is a socket whose end is also an event, or -1 if there is no such
  /// socket.
  Event wait(int watched = -1);
  /// Takes a signal that has arrived since the last call, without waiting. Returns false if there is none.
  bool take();
  /// Returns a descriptor that is readable while a signal waits to be taken. For a caller that polls for
  /// other events, too.
  int descriptor() const { return signals_.get(); }
  /// Makes wait() return `notified`. May be called from any thread.
  void notify() const;
  /// For the end of the process. If the process still runs after `patience`, it ends with `code`. It also
  /// ends with `code`, at once, at the next SIGINT or SIGTERM. Signals that arrived before are discarded. May
  /// be called again.
  void end_within(Duration patience, int code);

 private:
  Descriptor signals_;
  Descriptor notice_;
};

}  // namespace rdmc
