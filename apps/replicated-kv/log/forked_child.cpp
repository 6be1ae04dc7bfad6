#include "apps/replicated-kv/log/forked_child.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <thread>

namespace rdmc::kv {

namespace {

[[noreturn]] void run_child(int kept, pid_t parent, const std::function<int(int)>& work) {
  constexpr int kKept = 3, kNicer = 10;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(ESRCH);
  if (kept != kKept && ::dup2(kept, kKept) < 0) ::_exit(errno);
  ::syscall(SYS_close_range, kKept + 1, ~0U, 0);
  ::setpriority(PRIO_PROCESS, 0, kNicer);
  int error = ENOMEM;
  try {
    error = work(kKept);
  } catch (const std::exception&) {
  }
  ::_exit(error);
}

}  // namespace

Result<void> ForkedChild::begin(int kept, const std::function<int(int)>& work) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_child(kept, parent, work);
  if (child < 0) return fail_errno("fork", errno);
  pid_ = child;
  child_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (child_) return {};
  const int error = errno;
  stop();
  return fail_errno("pidfd_open", error);
}

std::optional<Result<void>> ForkedChild::finished() {
  int status = 0;
  if (pid_ == 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = 0;
  child_.reset();
  if (!WIFEXITED(status)) return fail(Errc::peer_failed, "the child process was killed");
  if (WEXITSTATUS(status) != 0) return fail_errno("the child process has failed", WEXITSTATUS(status));
  return Result<void>();
}

void ForkedChild::stop() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  child_.reset();
}

int outlast_child(int busy, const std::function<int()>& attempt) {
  constexpr int kAttempts = 300;
  int error = attempt();
  for (int i = 1; i < kAttempts && error == busy; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    error = attempt();
  }
  return error;
}

}  // namespace rdmc::kv
