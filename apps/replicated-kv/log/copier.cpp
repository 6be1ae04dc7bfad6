#include "apps/replicated-kv/log/copier.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

namespace rdmc::kv {

namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

/// Writes the file. Returns 0 or an errno.
int write_copy(int file, const FileHead& head, const Copier::Save& save) {
  std::uint64_t offset = 0;
  int error = 0;
  const auto write = [&](std::span<const std::byte> bytes) {
    while (error == 0 && !bytes.empty()) {
      const ssize_t count = ::write(file, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        error = count == 0 ? ENOSPC : errno;
        return;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  };
  std::vector<std::byte> gathered;
  const auto put_gathered = [&] {
    std::vector<std::byte> frame;
    put_frame(frame, {.id = head.id, .offset = offset}, gathered);
    write(frame);
    gathered.clear();
  };
  write(encode(head));
  save([&](std::vector<std::byte> piece) {
    for (std::span<const std::byte> rest = piece; !rest.empty() && error == 0;) {
      const auto part = rest.first(std::min(rest.size(), kPieceBytes - gathered.size()));
      gathered.insert(gathered.end(), part.begin(), part.end());
      rest = rest.subspan(part.size());
      if (gathered.size() == kPieceBytes) put_gathered();
    }
  });
  if (!gathered.empty()) put_gathered();
  put_gathered();  // An empty frame is the end.
  if (error == 0 && ::fdatasync(file) != 0) error = errno;
  return error;
}

/// The child keeps nothing of the server open but the file. A connection would otherwise live as long as it.
[[noreturn]] void run_child(int file, pid_t parent, const FileHead& head, const Copier::Save& save) {
  constexpr int kFile = 3, kNicer = 10;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(ESRCH);
  if (file != kFile && ::dup2(file, kFile) < 0) ::_exit(errno);
  ::syscall(SYS_close_range, kFile + 1, ~0U, 0);
  ::setpriority(PRIO_PROCESS, 0, kNicer);
  int error = ENOMEM;
  try {
    error = write_copy(kFile, head, save);
  } catch (const std::exception&) {
  }
  ::_exit(error);
}

}  // namespace

Result<void> Copier::begin(Descriptor file, const FileHead& head, const Save& save) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_child(file.get(), parent, head, save);
  if (child < 0) return fail_errno("no process can be made for a copy of the state", errno);
  pid_ = child;
  child_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!child_) {
    const int error = errno;
    stop();
    return fail_errno("pidfd_open", error);
  }
  file_ = std::move(file);
  return {};
}

std::optional<Result<std::uint64_t>> Copier::finished() {
  int status = 0;
  if (pid_ == 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = 0;
  child_.reset();
  const Descriptor file = std::exchange(file_, Descriptor());
  if (!WIFEXITED(status))
    return fail(Errc::peer_failed, "the process that writes a copy of the state was killed");
  if (WEXITSTATUS(status) != 0)
    return fail_errno("a copy of the state cannot be written", WEXITSTATUS(status));
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return fail_errno("a copy of the state", errno);
  return static_cast<std::uint64_t>(about.st_size);
}

void Copier::stop() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  child_.reset();
  file_.reset();
}

}  // namespace rdmc::kv
