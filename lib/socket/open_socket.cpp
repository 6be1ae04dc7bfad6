#include "lib/socket/open_socket.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace rdmc::sockets {

static_assert(kReadable == (POLLIN | POLLRDNORM) && kWritable == (POLLOUT | POLLWRNORM));
static_assert(kPeerEnded == POLLRDHUP && kHungUp == POLLHUP && kFailed == POLLERR);

void OpenSocket::on_change(bool data) {
  changes.fetch_add(1);
  if (sleepers_.load() != 0) syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  refresh(data);
}

void OpenSocket::refresh(bool pulse) {
  if (!pollable) return;
  int events = socket.events();
  // A hang-up cannot be taken back, and a socket that has never been connected may still be.
  if (!socket.stream()->has_been_open()) events &= ~(POLLHUP | POLLRDHUP);
  pollable->show(static_cast<short>(events), pulse);
}

Woken OpenSocket::sleep(std::uint32_t seen, Time deadline) {
  const timespec until{.tv_sec = deadline.ns / 1'000'000'000, .tv_nsec = deadline.ns % 1'000'000'000};
  sleepers_.fetch_add(1);
  // Without a deadline the kernel itself goes on after a signal whose handler says so (SA_RESTART); with one
  // it never does. So it is with its own sockets.
  const auto slept = syscall(SYS_futex, &changes, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
                             deadline == Time::never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  const int error = slept == 0 ? 0 : errno;
  sleepers_.fetch_sub(1);
  if (error == ETIMEDOUT) return Woken::timed_out;
  return error == EINTR ? Woken::interrupted : Woken::changed;
}

}  // namespace rdmc::sockets
