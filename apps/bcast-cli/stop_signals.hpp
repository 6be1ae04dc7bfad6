// SIGINT, SIGTERM and SIGHUP as events that the main thread waits for, together with the end of its work. No
// signal handler runs, so nothing is interrupted in the middle. The object must be made before any other
// thread is started, because threads inherit the blocked signals. When only clean-up and output remain,
// end_within() restores the effect of the signals. So neither a hung disk nor a reader that has stopped
// reading can keep the process alive.
#pragma once

#include <cstdint>

#include "apps/bcast-cli/file_io.hpp"
#include "apps/bcast-cli/options.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

class StopSignals {
 public:
  enum class Event : std::uint8_t {
    signal,    ///< a signal asks the process to stop
    notified,  ///< notify() was called
    hung_up,   ///< the other end of `watched` has been closed
  };

  /// Blocks the signals in the calling thread. Errors: resource_limit.
  static Result<StopSignals> block();
  /// Waits for the next event. `watched` is a socket whose end is also an event, or -1.
  Event wait(int watched = -1);
  /// Takes a signal that has arrived since, without waiting. Returns false if there is none.
  bool take();
  /// A descriptor that is readable while a signal waits to be taken. For a caller that polls for other
  /// events, too.
  int descriptor() const { return signals_.get(); }
  /// May be called from any thread.
  void notify() const;
  /// For the end of the process. If the process still runs after `patience`, or at the next SIGINT or
  /// SIGTERM, it ends at once with `code`. Signals that arrived before are discarded. May be called again.
  void end_within(Duration patience, ExitCode code);

 private:
  FileDescriptor signals_;
  FileDescriptor notice_;
};

}  // namespace rdmc::bcast
