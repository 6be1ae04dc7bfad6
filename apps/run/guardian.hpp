// A process that outlives rdmc_run by a moment. If rdmc_run dies, even by SIGKILL, the guardian kills all
// processes of the run, and ends itself. The kernel does this only for the children of rdmc_run
// (PR_SET_PDEATHSIG), and not for the processes that these have started, for example if the program is a
// shell script. Each child is the leader of a process group, and the guardian kills these groups.
#pragma once

#include <sys/types.h>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::run {

class Guardian {
 public:
  /// Starts the process. Must be called before the caller has other threads. Errors: resource_limit.
  static Result<Guardian> start();
  Guardian(Guardian&&) noexcept = default;
  Guardian& operator=(Guardian&&) = delete;
  /// Ends the process and waits for its end. It kills the groups that are still watched.
  ~Guardian();

  /// Adds a process group, or removes one whose processes have ended.
  void watch(pid_t group) { send(group); }
  void forget(pid_t group) { send(-group); }
  pid_t pid() const { return pid_; }

 private:
  Guardian(Descriptor link, pid_t pid) : link_(std::move(link)), pid_(pid) {}
  void send(pid_t word);

  Descriptor link_;  ///< The guardian sees the end of this pipe when rdmc_run has ended.
  pid_t pid_;
};

}  // namespace rdmc::run
