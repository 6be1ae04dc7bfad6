#include "apps/run/poller.hpp"

#include <array>
#include <cerrno>
#include <utility>

namespace rdmc::run {

Result<Poller> Poller::create() {
  Poller poller;
  poller.epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!poller.epoll_) return fail_errno("epoll_create1", errno);
  return poller;
}

bool Poller::add(int fd, std::uint32_t events, Handler handler) {
  const std::uint64_t number = ++last_number_;
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
  entries_[fd] = {number, std::make_shared<Handler>(std::move(handler))};
  return true;
}

void Poller::remove(int fd) {
  if (entries_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Poller::wait(int timeout_ms) {
  std::array<epoll_event, 64> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), ready.size(), timeout_ms);
  const std::uint64_t before = last_number_;
  for (int i = 0; i < count; ++i) {
    const auto found = entries_.find(ready[static_cast<std::size_t>(i)].data.fd);
    // A function that was called before may have removed this descriptor, or added another one in its place.
    if (found == entries_.end() || found->second.number > before) continue;
    const auto handler = found->second.handler;
    (*handler)();
  }
}

}  // namespace rdmc::run
