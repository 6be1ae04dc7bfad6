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
#include "lib/replica/descriptor_socket.hpp"

namespace rdmc::run {

/// The descriptors that a process inherits besides its streams have high numbers, so that they do not
/// conflict with the program's own descriptors.
inline constexpr int kFirstPassedDescriptor = 100;

struct SpawnPlan {
  std::vector<std::string> command;      ///< the program, which is looked for in PATH, and its arguments
  std::vector<std::string> environment;  ///< NAME=VALUE
  int fork_descriptor = -1;              ///< the same for its descriptor socket, or -1
  int key_descriptor = -1;               ///< the process inherits this descriptor with the same number
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
  Descriptor fork_socket;     ///< rdmc_run's end of its descriptor socket, if it has one
};

/// The descriptors of a process that is made: its own ends, and those of rdmc_run.
struct Streams {
  replica::PassedDescriptors passed;
  Child child;
};
/// Makes the pipes of a process. Without `has_input`, its standard input is /dev/null. Errors:
/// resource_limit.
Result<Streams> make_streams(bool has_input);
/// Makes the descriptor socket of a process.
Result<void> add_fork_socket(Streams& streams);
/// Watches the process `pid`. Errors: not_found if there is no such process.
Result<void> watch_process(Child& child, pid_t pid);

/// True if the kernel is ending the process, or has ended it and nobody has waited for it yet. The kernel
/// closes the connections of a process in this state, and its pidfd becomes readable only later.
bool is_exiting(pid_t pid);

/// Starts the process with these streams, and returns when it executes the program. Errors: not_found,
/// permission_denied and the other errors of execve(2), with the name of the program; resource_limit.
Result<Child> spawn(const SpawnPlan& plan, Streams streams);

/// Returns the environment of this process without the variables of a run that has started rdmc_run itself,
/// and with `added`.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& added);

}  // namespace rdmc::run
