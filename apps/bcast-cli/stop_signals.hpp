// SIGINT, SIGTERM and SIGHUP as events that the main thread waits for, beside the end of its work: no handler
// runs, so nothing is interrupted half way. Made before any other thread, which then inherits the blocked
// signals.
#pragma once

#include <cstdint>

#include "apps/bcast-cli/file_io.hpp"
#include "dataplane/base/error.hpp"

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
  /// Any thread.
  void notify() const;

 private:
  FileDescriptor signals_;
  FileDescriptor notice_;
};

}  // namespace rdmc::bcast
