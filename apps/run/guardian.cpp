#include "apps/run/guardian.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>

namespace rdmc::run {
namespace {

[[noreturn]] void guard(int link) {
  ::setsid();  // Signals of the terminal do not reach this process.
  ::prctl(PR_SET_NAME, "rdmc_run guard");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE})
    ::signal(signal, SIG_IGN);
  // It must not keep the files of rdmc_run open.
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= STDERR_FILENO && null >= 0; ++fd) ::dup2(null, fd);
  std::set<pid_t> groups;
  for (pid_t word = 0;;) {
    const ssize_t got = ::read(link, &word, sizeof word);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof word) break;
    if (word > 0)
      groups.insert(word);
    else
      groups.erase(-word);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Result<Guardian> Guardian::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  Descriptor read_end(ends[0]), write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("cannot start a process", errno);
  if (pid == 0) {
    write_end.reset();
    guard(read_end.get());
  }
  return Guardian(std::move(write_end), pid);
}

Guardian::~Guardian() {
  if (!link_) return;  // This object was moved from.
  link_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::send(pid_t word) {
  // A write of 4 bytes to a pipe is never cut. It fails only if the guardian was killed.
  while (::write(link_.get(), &word, sizeof word) < 0 && errno == EINTR) {
  }
}

}  // namespace rdmc::run
