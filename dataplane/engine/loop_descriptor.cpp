#include "dataplane/engine/loop_descriptor.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace rdmc::engine {

Result<LoopDescriptor> LoopDescriptor::make(std::span<const int> watched) {
  Descriptor all(epoll_create1(EPOLL_CLOEXEC));
  if (!all) return fail_errno("epoll_create1", errno);
  Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return fail_errno("timerfd_create", errno);
  std::vector<int> entries(watched.begin(), watched.end());
  entries.push_back(timer.get());
  for (const int entry : entries) {
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {}};
    if (epoll_ctl(all.get(), EPOLL_CTL_ADD, entry, &event) != 0) return fail_errno("epoll_ctl", errno);
  }
  return LoopDescriptor(std::move(all), std::move(timer));
}

void LoopDescriptor::readable_at(Time time) {
  if (time == armed_) return;
  armed_ = time;
  itimerspec at{};  // All zero disarms the timer.
  if (time != Time::never()) {
    const std::int64_t ns = std::max<std::int64_t>(time.ns, 1);
    at.it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

void LoopDescriptor::take() {
  std::array<epoll_event, 8> events;  // more entries than there are watched descriptors
  epoll_wait(all_.get(), events.data(), static_cast<int>(events.size()), 0);
  armed_ = Time{-1};  // This call may have consumed the timer's expiry.
}

}  // namespace rdmc::engine
