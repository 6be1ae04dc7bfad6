// Starts one process of the run. Must be called on the main thread: the kernel kills the process when the
// thread that has started it ends.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::run {

struct SpawnPlan {
  std::vector<std::string> command;      ///< the program, which is looked for in PATH, and its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE
  int key_descriptor = -1;               ///< the process inherits this descriptor with the same number
  bool has_input = false;                ///< if false, the standard input is /dev/null
  // What rdmc_run has changed for itself. The process gets the values from before.
  sigset_t signal_mask{};
  bool ignores_broken_pipes = false;
  rlimit descriptors{};
};

struct Child {
  pid_t pid = -1;             ///< also the number of its process group
  Descriptor process;         ///< a pidfd, which is readable when the process has ended
  Descriptor input;           ///< the pipe to its standard input; non-blocking; empty without has_input
  Descriptor output, errors;  ///< the pipes from its standard output and error; non-blocking
};

/// Starts the process, and returns when it executes the program. Errors: not_found, permission_denied and the
/// other errors of execve(2), with the name of the program; resource_limit.
Result<Child> spawn(const SpawnPlan& plan);

/// Returns the environment of this process without the variables of a run that has started rdmc_run itself,
/// and with `added`.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& added);

}  // namespace rdmc::run
