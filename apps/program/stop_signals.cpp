#include "apps/program/stop_signals.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

namespace rdmc {
namespace {

/// The exit code for the signal handler. Like the handler, it belongs to the whole process.
volatile sig_atomic_t end_code = 0;

void end_at_once(int) {
  ::_exit(end_code);
}

}  // namespace

Result<StopSignals> StopSignals::block() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  StopSignals stop;
  stop.signals_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  stop.notice_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!stop.signals_ || !stop.notice_) return fail_errno("cannot wait for signals", errno);
  return stop;
}

StopSignals::Event StopSignals::wait(int watched) {
  while (true) {
    pollfd ready[] = {
        {signals_.get(), POLLIN, 0}, {notice_.get(), POLLIN, 0}, {watched, POLLIN | POLLRDHUP, 0}};
    if (::poll(ready, 3, -1) < 0)
      continue;  // The error is EINTR; no other error is possible with these
                 // arguments.
    if (ready[0].revents != 0 && take()) return Event::signal;
    if (ready[1].revents != 0) {
      std::uint64_t count = 0;
      if (::read(notice_.get(), &count, sizeof count) == sizeof count) return Event::notified;
    }
    if (ready[2].revents != 0) return Event::hung_up;
  }
}

bool StopSignals::take() {
  signalfd_siginfo taken;
  return ::read(signals_.get(), &taken, sizeof taken) == sizeof taken;
}

void StopSignals::end_within(Duration patience, int code) {
  while (take()) {
  }
  end_code = code;
  struct sigaction end {};
  end.sa_handler = end_at_once;
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGALRM}) {
    ::sigaction(number, &end, nullptr);
    ::sigaddset(&set, number);
  }
  itimerval timer{};
  timer.it_value.tv_sec = patience.ns / 1'000'000'000;
  timer.it_value.tv_usec = patience.ns % 1'000'000'000 / 1000;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void StopSignals::notify() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(notice_.get(), &one, sizeof one);
}

}  // namespace rdmc
