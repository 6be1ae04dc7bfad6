// Reports which flows have something to receive, and sleeps until a flow has something. It does not check
// each flow, because a process has about a dozen flows, and an idle flow must cost nothing. The two
// implementations behave in the same way: an event is reported once, and the caller must then receive until
// nothing is left.
//
// A port owns this object. All functions except wake() must be called on the port's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/port/port.hpp"

namespace rdmc::port {

class Readiness {
 public:
  virtual ~Readiness() = default;

  /// Begins to report `flow` when `descriptor` is readable. Reports it at once if it is readable now.
  virtual Result<void> add(FlowId flow, int descriptor) = 0;
  /// Ends the reports for `flow`. Must be called before the descriptor is closed. One earlier event may still
  /// be reported afterwards.
  virtual void remove(FlowId flow, int descriptor) = 0;

  /// Appends the flows that have become readable. Never blocks.
  virtual void poll(std::vector<FlowId>& readable) = 0;
  /// Like poll(), but blocks until a flow is readable, until `deadline` (CLOCK_MONOTONIC), or until wake() is
  /// called.
  virtual void wait(Time deadline, std::vector<FlowId>& readable) = 0;
  /// Does the same as poll(), for a caller that watches the descriptors instead of calling wait(). Returns
  /// false if a flow is readable or wake() was called.
  virtual bool may_wait(std::vector<FlowId>& readable) = 0;
  /// Returns descriptors for the caller to watch. One of them becomes readable with the first event after
  /// may_wait(), and with wake(). The caller must watch them for edges. Errors: resource_limit.
  virtual Result<std::vector<int>> descriptors() = 0;
  /// Ends the present wait or the next one. Any thread may call it.
  virtual void wake() noexcept = 0;
};

/// Returns an implementation that uses io_uring and polls a ring buffer in memory. While nothing has
/// happened, a poll costs no system call. If `changes_threads` is set, different threads may use the object
/// one after another, and the kernel may interrupt the thread that has added a flow. Errors: unsupported or
/// permission_denied if the kernel or the container has no io_uring (Linux 6.1 is needed).
Result<std::unique_ptr<Readiness>> make_uring_readiness(std::uint64_t& system_calls,
                                                        bool changes_threads = false);
/// Returns an implementation that uses epoll, which every kernel has. Errors: resource_limit.
Result<std::unique_ptr<Readiness>> make_epoll_readiness(std::uint64_t& system_calls);

}  // namespace rdmc::port
