#include "dataplane/fabric/shm/socket_watch.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>

#include "dataplane/base/quiet_thread.hpp"

namespace rdmc::fabric::shm {
namespace {

constexpr std::uint64_t kStop = UINT64_MAX;

}  // namespace

Result<std::unique_ptr<SocketWatch>> SocketWatch::open(std::function<void()> tell) {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC)), stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll || !stop) return fail_errno("watching local sockets", errno);
  std::unique_ptr<SocketWatch> self(new SocketWatch(std::move(tell), std::move(epoll), std::move(stop)));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kStop}};
  if (epoll_ctl(self->epoll_.get(), EPOLL_CTL_ADD, self->stop_.get(), &event) != 0)
    return fail_errno("watching local sockets", errno);
  auto thread = start_quiet_thread("to watch local sockets", [watch = self.get()] { watch->run(); });
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
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event) == 0) return {};
  if (errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0) return {};
  return fail_errno("watching a local socket", errno);
}

void SocketWatch::take(std::vector<std::uint64_t>& out) {
  const std::scoped_lock lock(mutex_);
  std::swap(out, noted_);
}

void SocketWatch::run() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kStop) return;
      const std::scoped_lock lock(mutex_);
      noted_.push_back(events[i].data.u64);
    }
    if (count > 0) tell_();
  }
}

}  // namespace rdmc::fabric::shm
