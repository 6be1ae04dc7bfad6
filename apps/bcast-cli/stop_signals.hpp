// SIGINT, SIGTERM and SIGHUP as events that the main thread waits for, beside the end of its work: no handler
// runs, so nothing is interrupted half way. Made before any other thread, which then inherits the blocked
// signals. When all that is left is tidying and printing, end_within() gives the signals their force back, so
// that neither a hung disk nor a reader that has stopped reading can keep the process.
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
    signal,    ///< asked to stop
    notified,  ///< notify() was called
    hung_up,   ///< the other end of `watched` is closed
  };

  /// Blocks the signals in the calling thread. Errors: resource_limit.
  static Result<StopSignals> block();
  /// Waits for the next event; `watched`: a socket whose end matters too, or -1.
  Event wait(int watched = -1);
  /// Takes a signal that has come since, if any, without waiting.
  bool take();
  /// Readable while a signal waits to be taken; for whoever polls for something else.
  int descriptor() const { return signals_.get(); }
  /// Any thread.
  void notify() const;
  /// The beginning of the end: when the calling thread has not ended the process after `patience`, or at the
  /// next SIGINT or SIGTERM, the process ends at once with `code`. Signals that came before are forgotten.
  /// May be called again.
  void end_within(Duration patience, ExitCode code);

 private:
  FileDescriptor signals_;
  FileDescriptor notice_;
};

}  // namespace rdmc::bcast
