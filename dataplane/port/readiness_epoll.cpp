#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/port/readiness.hpp"
#include "dataplane/port/wake_event.hpp"

namespace rdmc::port {
namespace {

constexpr std::uint64_t kEpollWakeTag = ~std::uint64_t{0};
constexpr std::size_t kEventsPerCall = 64;

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
    // Memory is reserved first. If there is no memory, this throws before any event is consumed.
    readable.reserve(readable.size() + kEventsPerCall);
    std::array<epoll_event, kEventsPerCall> events;
    ++system_calls_;
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
      if (tag != kEpollWakeTag) readable.push_back(FlowId{static_cast<std::uint32_t>(tag)});
    }
  }

  void wait(Time deadline, std::vector<FlowId>& readable) override {
    while (may_wait(readable) && sleep_until(deadline)) {
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

  /// Sleeps until an event or until the deadline. Returns false when the deadline has passed. Uses ppoll,
  /// because epoll_wait counts in milliseconds.
  bool sleep_until(Time deadline) {
    timespec rest{};
    if (deadline != Time::never()) {
      const Duration left = deadline - monotonic_now();
      if (left.ns <= 0) return false;
      rest = {left.ns / 1'000'000'000, left.ns % 1'000'000'000};
    }
    pollfd any{epoll_.get(), POLLIN, 0};
    ++system_calls_;
    return ppoll(&any, 1, deadline == Time::never() ? nullptr : &rest, nullptr) != 0;
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
