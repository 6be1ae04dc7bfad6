#include "apps/run/spawn.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "lib/replica/assignment.hpp"

namespace rdmc::run {
namespace {

struct Pipe {
  Descriptor read_end, write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

void set_nonblocking(const Descriptor& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs in the child between vfork and exec. It makes only system calls, because it uses the memory of the
/// parent, and another thread of the parent may hold any lock. Returns only if the program cannot be
/// executed.
void become_program(const SpawnPlan& plan, pid_t parent, int input, int output, int errors,
                    char* const* arguments, char* const* environment) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // The parent died before prctl().
  // The descriptors 0 to 2 of rdmc_run are open, so the numbers of the pipes are higher.
  if (::dup2(input, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(errors, STDERR_FILENO) < 0)
    return;
  if (::fcntl(plan.key_descriptor, F_SETFD, 0) < 0) return;
  if (::setrlimit(RLIMIT_NOFILE, &plan.descriptors) != 0) return;
  ::signal(SIGPIPE, plan.ignores_broken_pipes ? SIG_IGN : SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  ::execvpe(arguments[0], arguments, environment);
}

}  // namespace

Result<Child> spawn(const SpawnPlan& plan) {
  auto output = make_pipe(), errors = make_pipe(), failure = make_pipe();
  if (!output) return std::unexpected(output.error());
  if (!errors) return std::unexpected(errors.error());
  if (!failure) return std::unexpected(failure.error());
  Pipe input;
  if (plan.has_input) {
    auto made = make_pipe();
    if (!made) return std::unexpected(made.error());
    input = std::move(*made);
  } else {
    input.read_end = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!input.read_end) return fail_errno("/dev/null", errno);
  }
  const auto arguments = pointers_to(plan.command), environment = pointers_to(plan.environment);
  const pid_t parent = ::getpid();
  // The child uses the memory of this process until it executes the program, so no memory is copied.
  // Meanwhile this thread waits.
  const pid_t pid = ::vfork();
  if (pid < 0) return fail_errno("cannot start a process", errno);
  if (pid == 0) {
    become_program(plan, parent, input.read_end.get(), output->write_end.get(), errors->write_end.get(),
                   arguments.data(), environment.data());
    const int cause = errno;
    (void)!::write(failure->write_end.get(), &cause, sizeof cause);
    ::_exit(127);
  }
  // The pipe ends without a word when the program is executed.
  failure->write_end.reset();
  int cause = 0;
  ssize_t got = 0;
  do got = ::read(failure->read_end.get(), &cause, sizeof cause);
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return fail_errno("cannot execute " + plan.command.front(), cause);
  }
  Child child{.pid = pid,
              .process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
              .input = std::move(input.write_end),
              .output = std::move(output->read_end),
              .errors = std::move(errors->read_end)};
  if (!child.process) {
    const int why = errno;
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return fail_errno("cannot watch a process", why);
  }
  ::fcntl(child.process.get(), F_SETFD, FD_CLOEXEC);
  set_nonblocking(child.output);
  set_nonblocking(child.errors);
  if (child.input) set_nonblocking(child.input);
  return child;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> environment;
  for (char** one = ::environ; *one != nullptr; ++one)
    if (!std::string_view(*one).starts_with(replica::kVariablePrefix)) environment.emplace_back(*one);
  for (const auto& [name, value] : added) environment.push_back(name + "=" + value);
  return environment;
}

}  // namespace rdmc::run
