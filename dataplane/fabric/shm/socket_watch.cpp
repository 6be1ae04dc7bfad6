#include "dataplane/fabric/shm/socket_watch.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cassert>
#include <cerrno>

#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::fabric::shm {
Result<std::unique_ptr<SocketWatch>> SocketWatch::open(std::function<void()> tell) {
  Descriptor sockets(epoll_create1(EPOLL_CLOEXEC)), thread_waits(epoll_create1(EPOLL_CLOEXEC)),
      stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!sockets || !thread_waits || !stop) return fail_errno("watching local sockets", errno);
  std::unique_ptr<SocketWatch> self(
      new SocketWatch(std::move(tell), std::move(sockets), std::move(thread_waits), std::move(stop)));
  epoll_event stopping{.events = EPOLLIN, .data = {.u64 = kStop}};
  epoll_event news{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = kNews}};
  const int waits = self->thread_waits_.get();
  if (epoll_ctl(waits, EPOLL_CTL_ADD, self->stop_.get(), &stopping) != 0 ||
      epoll_ctl(waits, EPOLL_CTL_ADD, self->sockets_.get(), &news) != 0)
    return fail_errno("watching local sockets", errno);
  auto thread = start_signal_masked_thread("to watch local sockets", [watch = self.get()] {
    pthread_setname_np(pthread_self(), "rdmc-sockets");
    watch->run();
  });
  if (!thread) return std::unexpected(thread.error());
  self->thread_ = std::move(*thread);
  return self;
}

SocketWatch::~SocketWatch() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

Result<void> SocketWatch::watch(const Descriptor& socket, std::uint64_t tag) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, .data = {.u64 = tag}};
  if (epoll_ctl(sockets_.get(), EPOLL_CTL_MOD, socket.get(), &event) == 0) return {};
  if (errno == ENOENT && epoll_ctl(sockets_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0) return {};
  return fail_errno("watching a local socket", errno);
}

std::span<const std::uint64_t> SocketWatch::take() {
  std::array<epoll_event, kMostTaken> events;
  const int count = epoll_wait(sockets_.get(), events.data(), static_cast<int>(events.size()), 0);
  // When this event is armed again, the kernel checks the sockets again. So an event that was not taken, or
  // that has occurred since then, wakes the thread again.
  epoll_event news{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = kNews}};
  [[maybe_unused]] const int armed = epoll_ctl(thread_waits_.get(), EPOLL_CTL_MOD, sockets_.get(), &news);
  assert(armed == 0);
  const std::size_t taken = count < 0 ? 0 : static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < taken; ++i) taken_[i] = events[i].data.u64;
  return std::span(taken_).first(taken);
}

void SocketWatch::run() {
  while (true) {
    epoll_event event{};
    const int count = epoll_wait(thread_waits_.get(), &event, 1, -1);
    if (count < 0 && errno != EINTR) return;
    if (count > 0 && event.data.u64 == kStop) return;
    if (count > 0) tell_();
  }
}

}  // namespace rdmc::fabric::shm
