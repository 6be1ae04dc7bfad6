#include "lib/replica/process_fork.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "dataplane/base/own_descriptors.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::replica {
namespace {

/// The beginning of the names of the library's threads.
constexpr std::string_view kOwnThreads = "rdmc-";

/// The flags with which a file is opened again. The other ones are for files that do not exist yet.
constexpr int kKeptFlags = O_ACCMODE | O_APPEND | O_DIRECT | O_DSYNC | O_SYNC | O_NOATIME | O_NONBLOCK;

/// The open descriptors of this process.
std::vector<int> descriptors() {
  std::vector<int> numbers;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const std::string name = entry.path().filename();
    int number = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc())
      numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

StandardStreams::File StandardStreams::file_of(int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return {};
  return {.device = about.st_dev, .inode = about.st_ino};
}

StandardStreams StandardStreams::now() {
  StandardStreams streams;
  for (int i = 0; i < 3; ++i) streams.files_[static_cast<std::size_t>(i)] = file_of(i);
  return streams;
}

void StandardStreams::replace(const PassedDescriptors& by) {
  const std::array passed{by.input.get(), by.output.get(), by.errors.get()};
  for (const int descriptor : descriptors()) {
    const File file = file_of(descriptor);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (file == File() || file != files_[i]) continue;
      const int flags = ::fcntl(descriptor, F_GETFD);
      ::dup3(passed[i], descriptor, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
      break;
    }
  }
  for (std::size_t i = 0; i < files_.size(); ++i) files_[i] = file_of(passed[i]);
}

std::optional<std::string> other_thread() {
  const std::string own = std::to_string(::gettid());
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    if (entry.path().filename() == own) continue;
    std::string name;
    std::ifstream file(entry.path() / "comm");
    if (!std::getline(file, name) || name.starts_with(kOwnThreads)) continue;
    return name;
  }
  return std::nullopt;
}

// The process in between uses the memory of this one, and this thread waits until it has ended. So the memory
// is copied only once: copying the page tables of 256 MB takes some milliseconds.
Result<bool> fork_orphan() {
  const pid_t between = ::vfork();
  if (between < 0) return fail_errno("cannot fork", errno);
  if (between == 0) {
    const pid_t self = ::getpid();
    const pid_t copy = ::fork();
    if (copy != 0) ::_exit(copy < 0 ? 1 : 0);
    // From here on, this is the copy. When the process in between has ended, it is a child of rdmc_run.
    while (::getppid() == self) ::sched_yield();
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
  }
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(between, &status, 0);
  while (ended < 0 && errno == EINTR);
  // A signal handler of the program may have waited for the process.
  if (ended == between && status != 0) return fail(Errc::resource_limit, "cannot fork");
  return false;
}

void drop_inherited() {
  close_inherited();
  memory::unmap_shared_pages();
}

OpenFiles OpenFiles::now() {
  OpenFiles files;
  for (const int descriptor : descriptors()) {
    struct stat about {};
    if (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode))
      files.files_.push_back({.descriptor = descriptor, .offset = ::lseek(descriptor, 0, SEEK_CUR)});
  }
  return files;
}

void OpenFiles::open_again() const {
  for (const auto& [descriptor, offset] : files_) {
    const int flags = ::fcntl(descriptor, F_GETFL), descriptor_flags = ::fcntl(descriptor, F_GETFD);
    if (flags < 0 || offset < 0) continue;  // The library has closed its own files.
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const int opened = ::open(path.c_str(), (flags & kKeptFlags) | O_CLOEXEC);
    if (opened < 0) continue;
    if (::lseek(opened, offset, SEEK_SET) == offset)
      ::dup3(opened, descriptor, (descriptor_flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
    ::close(opened);
  }
}

}  // namespace rdmc::replica
