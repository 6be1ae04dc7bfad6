#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/port/readiness.hpp"
#include "dataplane/port/wake_event.hpp"

namespace rdmc::port {
namespace {

constexpr std::uint64_t kEpollWakeTag = ~std::uint64_t{0};
constexpr int kEventsPerCall = 64;

class EpollReadiness final : public Readiness {
 public:
  explicit EpollReadiness(std::uint64_t& system_calls)
      : system_calls_(system_calls), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  Result<void> start() {
    if (!epoll_) return fail_errno("epoll_create1", errno);
    if (wake_.descriptor() < 0) return fail_errno("eventfd", errno);
    return watch(wake_.descriptor(), kEpollWakeTag);
  }

  Result<void> add(FlowId flow, int descriptor) override { return watch(descriptor, value_of(flow)); }

  void remove(FlowId, int descriptor) override {
    ++system_calls_;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  }

  void poll(std::vector<FlowId>& readable) override {
    const timespec at_once{};
    collect(readable, &at_once);
  }

  void wait(Time deadline, std::vector<FlowId>& readable) override {
    // A wake-up sets the flag before it makes the eventfd readable. So if the flag is not set yet, the event
    // of the wake-up is still to come and ends the sleep.
    while (readable.empty() && !wake_.take()) {
      timespec rest{};
      if (deadline != Time::never()) {
        const Duration left = std::max(deadline - monotonic_now(), Duration{});
        rest = {left.ns / 1'000'000'000, left.ns % 1'000'000'000};
      }
      if (collect(readable, deadline == Time::never() ? nullptr : &rest) == 0) return;
    }
  }

  bool may_wait(std::vector<FlowId>& readable) override {
    // poll() consumes the eventfd's event. The flag is read after that, so that no wake-up between the two
    // steps is lost.
    poll(readable);
    return readable.empty() && !wake_.take();
  }

  Result<std::vector<int>> descriptors() override { return std::vector{epoll_.get()}; }

  void wake() noexcept override { wake_.set(); }

 private:
  Result<void> watch(int descriptor, std::uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = tag;
    ++system_calls_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      return fail_errno("epoll_ctl", errno);
    return {};
  }

  /// Sleeps until an event, for the time `longest` at most (null: no limit). Appends the flows that have
  /// become readable. Returns the number of events, or possibly -1 after a signal.
  int collect(std::vector<FlowId>& readable, const timespec* longest) {
    // Memory is reserved first. If there is no memory, this call throws before any event is consumed.
    readable.reserve(readable.size() + kEventsPerCall);
    std::array<epoll_event, kEventsPerCall> events;
    ++system_calls_;
    int count = epoll_pwait2(epoll_.get(), events.data(), kEventsPerCall, longest, nullptr);
    if (count < 0 && errno != EINTR) {  // The kernel is older than Linux 5.11, or a filter forbids the call.
      pollfd any{epoll_.get(), POLLIN, 0};
      ppoll(&any, 1, longest, nullptr);
      count = epoll_wait(epoll_.get(), events.data(), kEventsPerCall, 0);
    }
    for (int i = 0; i < count; ++i) {
      const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
      if (tag != kEpollWakeTag) readable.push_back(FlowId{static_cast<std::uint32_t>(tag)});
    }
    return count;
  }

  std::uint64_t& system_calls_;
  Descriptor epoll_;
  WakeEvent wake_;
};

}  // namespace

Result<std::unique_ptr<Readiness>> make_epoll_readiness(std::uint64_t& system_calls) {
  auto readiness = std::make_unique<EpollReadiness>(system_calls);
  if (auto started = readiness->start(); !started) return std::unexpected(started.error());
  return readiness;
}

}  // namespace rdmc::port
