// Says which flows have something to receive without asking each of them, and sleeps until one has. A process
// has a dozen flows; an idle one must cost nothing. The two implementations behave
// alike: an event is reported once and must be followed by receiving until nothing is left.
//
// Owned by a port; all but wake() belong to the port's thread.
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

  /// Begins to report `flow` when `descriptor` is readable, at once if it is now.
  virtual Result<void> add(FlowId flow, int descriptor) = 0;
  /// Ends that; to be called before the descriptor is closed. An event already under way may still come.
  virtual void remove(FlowId flow, int descriptor) = 0;

  /// Appends the flows that have become readable. Never blocks.
  virtual void poll(std::vector<FlowId>& readable) = 0;
  /// The same, but blocks until there is one, or `deadline` (CLOCK_MONOTONIC) or wake().
  virtual void wait(Time deadline, std::vector<FlowId>& readable) = 0;
  /// For who waits in wait()'s place, by watching the descriptors: the same as poll(). False: there is
  /// something readable, or wake() was called.
  virtual bool may_wait(std::vector<FlowId>& readable) = 0;
  /// One of them becomes readable with the first event after may_wait(), and with wake(). To be watched for
  /// edges. Errors: resource_limit.
  virtual Result<std::vector<int>> descriptors() = 0;
  /// Ends a present or the next wait. Any thread.
  virtual void wake() noexcept = 0;
};

/// Polls through a ring in memory: asking costs no system call as long as nothing has happened.
/// Errors: unsupported or permission_denied where the kernel or the container has no io_uring (Linux 6.1 is
/// needed).
Result<std::unique_ptr<Readiness>> make_uring_readiness(std::uint64_t& system_calls);
/// Works on every kernel. Errors: resource_limit.
Result<std::unique_ptr<Readiness>> make_epoll_readiness(std::uint64_t& system_calls);

}  // namespace rdmc::port
