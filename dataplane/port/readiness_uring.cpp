#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/own_descriptors.hpp"
#include "dataplane/port/readiness.hpp"
#include "dataplane/port/wake_event.hpp"

namespace rdmc::port {
namespace {

constexpr unsigned kSubmissions = 64;
constexpr unsigned kCompletions = 4096;
constexpr std::uint64_t kUringWakeTag = ~std::uint64_t{0};
constexpr std::uint64_t kUringIgnoredTag = kUringWakeTag - 1;

/// Uses one multishot poll request for each flow. The ring is created disabled and normally belongs to the
/// thread that uses it first. The kernel then does the ring's work only when that thread calls the kernel for
/// it, and never interrupts the thread. A ring for several threads has no owner. For its work, the kernel
/// interrupts the thread that has armed the poll request.
///
/// The ring only reports readiness. Trains are sent and received by sendmmsg and recvmmsg. Measurements
/// showed that these calls are no slower than batches of requests in the ring. A recvmmsg also stops when the
/// socket is empty. In the ring, this would need a chain of requests.
class UringReadiness final : public Readiness {
 public:
  UringReadiness(std::uint64_t& system_calls, bool changes_threads)
      : system_calls_(system_calls), changes_threads_(changes_threads) {}
  ~UringReadiness() override {
    if (!made_) return;
    forget_own(ring_.ring_fd);
    io_uring_queue_exit(&ring_);
  }
  UringReadiness(const UringReadiness&) = delete;
  UringReadiness& operator=(const UringReadiness&) = delete;

  Result<void> start() {
    if (wake_.descriptor() < 0) return fail_errno("eventfd", errno);
    io_uring_params parameters{};
    parameters.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE;
    if (!changes_threads_)
      parameters.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    parameters.cq_entries = kCompletions;
    const int failed = io_uring_queue_init_params(kSubmissions, &ring_, &parameters);
    if (failed == -EINVAL) return fail(Errc::unsupported, "io_uring as Linux 6.1 has it");
    if (failed != 0) return fail_errno("io_uring", -failed);
    note_own(ring_.ring_fd);
    made_ = true;
    return {};
  }

  Result<void> add(FlowId flow, int descriptor) override {
    const std::size_t index = value_of(flow);
    if (index >= descriptors_.size()) descriptors_.resize(index + 1, -1);
    descriptors_[index] = descriptor;
    if (enabled_) {
      arm(descriptor, index);
      submit();
    }
    return {};
  }

  void remove(FlowId flow, int) override {
    descriptors_[value_of(flow)] = -1;
    if (!enabled_) return;
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_poll_remove(entry, value_of(flow));
    entry->user_data = kUringIgnoredTag;
    submit();
    look();  // Runs the cancellation, which releases the socket.
  }

  void poll(std::vector<FlowId>& readable) override {
    enable();
    if ((IO_URING_READ_ONCE(*ring_.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) look();
    reap(readable);
  }

  void wait(Time deadline, std::vector<FlowId>& readable) override {
    while (may_wait(readable) && sleep_until(deadline)) {
    }
  }

  bool may_wait(std::vector<FlowId>& readable) override {
    poll(readable);
    return readable.empty() && !wake_.take();
  }

  /// Returns two eventfds. The ring's own descriptor is not returned: the kernel delays the ring's work until
  /// the ring's thread calls the kernel for it, and the descriptor does not show that work exists. The kernel
  /// reports the work through an eventfd. This eventfd is never read, because each write to it is a new edge.
  /// The wake event is also an eventfd. Its descriptor is returned as well, because the ring would report it
  /// milliseconds later (call_rcu).
  Result<std::vector<int>> descriptors() override {
    enable();
    if (notices_) return std::vector{notices_.get(), wake_.descriptor()};
    Descriptor notices(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!notices) return fail_errno("eventfd", errno);
    if (const int failed = io_uring_register_eventfd(&ring_, notices.get()); failed != 0)
      return fail_errno("io_uring_register_eventfd", -failed);
    notices_ = std::move(notices);
    return std::vector{notices_.get(), wake_.descriptor()};
  }

  void wake() noexcept override { wake_.set(); }

 private:
  void enable() {
    if (enabled_) return;
    // This is io_uring_enable_rings, which Debian 12's liburing declares but does not export.
    [[maybe_unused]] const auto failed =
        syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    assert(failed == 0);
    enabled_ = true;
    arm(wake_.descriptor(), kUringWakeTag);
    for (std::size_t i = 0; i < descriptors_.size(); ++i) {
      if (descriptors_[i] >= 0) arm(descriptors_[i], i);
    }
    submit();
  }

  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      submit();
      entry = io_uring_get_sqe(&ring_);
    }
    assert(entry != nullptr);
    return entry;
  }

  void arm(int descriptor, std::uint64_t tag) {
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_poll_multishot(entry, descriptor, POLLIN);
    entry->user_data = tag;
  }

  void submit() {
    ++system_calls_;
    [[maybe_unused]] const int submitted = io_uring_submit(&ring_);
    assert(submitted != -EEXIST && "a port belongs to the thread that first received from it or waited");
  }

  /// Lets the kernel post the completions of past events. Does not wait.
  void look() {
    ++system_calls_;
    [[maybe_unused]] const int failed = io_uring_get_events(&ring_);
    assert(failed != -EEXIST && "a port belongs to the thread that first received from it or waited");
  }

  void reap(std::vector<FlowId>& readable) {
    // Memory is reserved first. If there is no memory, this call throws before any completion is consumed.
    readable.reserve(readable.size() + io_uring_cq_ready(&ring_));
    unsigned head = 0;
    unsigned seen = 0;
    bool armed = false;
    io_uring_cqe* done = nullptr;
    io_uring_for_each_cqe(&ring_, head, done) {
      ++seen;
      const std::uint64_t tag = done->user_data;
      if (tag == kUringIgnoredTag) continue;
      const int descriptor = tag == kUringWakeTag ? wake_.descriptor() : descriptors_[tag];
      if (descriptor < 0) continue;  // The flow was removed in the meantime.
      if ((done->flags & IORING_CQE_F_MORE) == 0 && done->res != -ECANCELED) {
        arm(descriptor, tag);
        armed = true;
      }
      if (tag != kUringWakeTag) readable.push_back(FlowId{static_cast<std::uint32_t>(tag)});
    }
    io_uring_cq_advance(&ring_, seen);
    if (armed) submit();
  }

  /// Sleeps until an event or until the deadline. Returns false when the deadline has passed.
  bool sleep_until(Time deadline) {
    __kernel_timespec rest{};
    if (deadline != Time::never()) {
      const Duration left = deadline - monotonic_now();
      if (left.ns <= 0) return false;
      rest = {left.ns / 1'000'000'000, left.ns % 1'000'000'000};
    }
    ++system_calls_;
    io_uring_cqe* any = nullptr;
    return io_uring_wait_cqe_timeout(&ring_, &any, deadline == Time::never() ? nullptr : &rest) != -ETIME;
  }

  std::uint64_t& system_calls_;
  const bool changes_threads_;
  io_uring ring_{};
  bool made_ = false;
  bool enabled_ = false;
  std::vector<int> descriptors_;  // Indexed by FlowId. -1 means no descriptor.
  WakeEvent wake_;
  Descriptor notices_;  // An eventfd. It exists when descriptors() has been called.
};

}  // namespace

Result<std::unique_ptr<Readiness>> make_uring_readiness(std::uint64_t& system_calls, bool changes_threads) {
  auto readiness = std::make_unique<UringReadiness>(system_calls, changes_threads);
  if (auto started = readiness->start(); !started) return std::unexpected(started.error());
  return readiness;
}

}  // namespace rdmc::port
