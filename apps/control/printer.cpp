#include "apps/control/printer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "dataplane/base/clock.hpp"

namespace rdmc::control_app {
namespace {

bool is_of(int fd, mode_t kind) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 && (about.st_mode & S_IFMT) == kind;
}

/// Opens a pipe or terminal again. Returns an empty descriptor for files, which do not block, for sockets,
/// which get a flag with each message, and if opening fails.
Descriptor reopened(int fd) {
  if (!is_of(fd, S_IFIFO) && !is_of(fd, S_IFCHR)) return {};
  return Descriptor(
      ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

Printer::Printer(int fd)
    : fd_(fd),
      own_(reopened(fd)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

Printer::~Printer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Printer::print(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() >= kMostBytes) {
      ++dropped_;
      return;
    }
    (waiting_ += std::move(line)) += '\n';
  }
  ::eventfd_write(wake_.get(), 1);
}

std::size_t Printer::write_some(std::string_view bytes) const {
  const long written = is_of(fd(), S_IFSOCK) ? ::send(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT)
                                             : ::write(fd(), bytes.data(), bytes.size());
  if (written >= 0) return static_cast<std::size_t>(written);
  // Bytes that no process can read any more count as written.
  return errno == EAGAIN || errno == EINTR ? 0 : bytes.size();
}

void Printer::run() {
  Time until = Time::never();
  std::array<char, PIPE_BUF> memory;
  for (std::size_t written = 0;;) {
    std::string_view next;
    {
      const std::lock_guard lock(mutex_);
      waiting_.erase(0, written);
      next = {memory.data(), waiting_.copy(memory.data(), memory.size())};
      if (ending_ && until == Time::never()) until = monotonic_now() + milliseconds(kLastWordsMs);
    }
    written = 0;
    const Time now = monotonic_now();
    if (until != Time::never() && (next.empty() || now >= until)) return;
    pollfd events[] = {{wake_.get(), POLLIN, 0}, {next.empty() ? -1 : fd(), POLLOUT, 0}};
    const int limit_ms =
        until == Time::never() ? -1 : static_cast<int>((until - now).ns / milliseconds(1).ns) + 1;
    ::poll(events, 2, limit_ms);
    eventfd_t ignored;
    ::eventfd_read(wake_.get(), &ignored);
    if (events[1].revents != 0) written = write_some(next);
  }
}

}  // namespace rdmc::control_app
