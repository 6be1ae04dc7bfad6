#include "apps/run/spawn.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

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
  if (plan.fork_descriptor >= 0 && ::fcntl(plan.fork_descriptor, F_SETFD, 0) < 0) return;
  if (::setrlimit(RLIMIT_NOFILE, &plan.descriptors) != 0) return;
  ::signal(SIGPIPE, plan.ignores_broken_pipes ? SIG_IGN : SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  ::execvpe(arguments[0], arguments, environment);
}

}  // namespace

Result<Streams> make_streams(bool has_input) {
  auto output = make_pipe(), errors = make_pipe();
  if (!output) return std::unexpected(output.error());
  if (!errors) return std::unexpected(errors.error());
  Pipe input;
  if (has_input) {
    auto made = make_pipe();
    if (!made) return std::unexpected(made.error());
    input = std::move(*made);
  } else {
    input.read_end = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!input.read_end) return fail_errno("/dev/null", errno);
  }
  Streams streams;
  streams.passed.input = std::move(input.read_end);
  streams.passed.output = std::move(output->write_end);
  streams.passed.errors = std::move(errors->write_end);
  streams.child.input = std::move(input.write_end);
  streams.child.output = std::move(output->read_end);
  streams.child.errors = std::move(errors->read_end);
  set_nonblocking(streams.child.output);
  set_nonblocking(streams.child.errors);
  if (streams.child.input) set_nonblocking(streams.child.input);
  return streams;
}

Result<void> add_fork_socket(Streams& streams) {
  auto ends = replica::make_descriptor_socket();
  if (!ends) return std::unexpected(ends.error());
  streams.child.fork_socket = std::move(ends->first);
  // Like that of the key, its number is high.
  streams.passed.socket = Descriptor(::fcntl(ends->second.get(), F_DUPFD_CLOEXEC, kFirstPassedDescriptor));
  if (!streams.passed.socket) return fail_errno("cannot pass on a socket", errno);
  return {};
}

Result<void> watch_process(Child& child, pid_t pid) {
  child.pid = pid;
  child.process = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!child.process) return fail_errno("cannot watch a process", errno);
  ::fcntl(child.process.get(), F_SETFD, FD_CLOEXEC);
  return {};
}

bool is_exiting(pid_t pid) {
  constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');  // The name of the program may have any other byte.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 9; ++i) fields >> field;
  unsigned flags = 0;
  return fields >> flags && (flags & kExiting) != 0;
}

Result<Child> spawn(const SpawnPlan& plan, Streams streams) {
  auto failure = make_pipe();
  if (!failure) return std::unexpected(failure.error());
  const auto arguments = pointers_to(plan.command), environment = pointers_to(plan.environment);
  const pid_t parent = ::getpid();
  // The child uses the memory of this process until it executes the program, so no memory is copied.
  // Meanwhile this thread waits.
  const pid_t pid = ::vfork();
  if (pid < 0) return fail_errno("cannot start a process", errno);
  if (pid == 0) {
    become_program(plan, parent, streams.passed.input.get(), streams.passed.output.get(),
                   streams.passed.errors.get(), arguments.data(), environment.data());
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
  if (auto watched = watch_process(streams.child, pid); !watched) {
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return std::unexpected(watched.error());
  }
  return std::move(streams.child);
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> environment;
  for (char** one = ::environ; *one != nullptr; ++one)
    if (!std::string_view(*one).starts_with(replica::kVariablePrefix)) environment.emplace_back(*one);
  for (const auto& [name, value] : added) environment.push_back(name + "=" + value);
  return environment;
}

}  // namespace rdmc::run
