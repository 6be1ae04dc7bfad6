// Polls the completions and the asynchronous events of the device, and sleeps until there are some.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/verbs/verbs_fabric.hpp"
#include "dataplane/fabric/verbs/verbs_queue_pair.hpp"
#include "dataplane/fabric/verbs/verbs_terms.hpp"

namespace rdmc::fabric {
namespace {

/// The interval at which the device's events and the time limits of the queue pairs are checked.
constexpr Duration kCheckInterval = milliseconds(20);

}  // namespace

std::size_t VerbsFabric::progress(Time now) {
  now_ = now;
  const std::size_t done = poll_device();
  if (introductions_ != 0) {
    for (const auto& [serial, queue_pair] : by_serial_) queue_pair->check_introduction();
  }
  finish_those_leaving(now);
  if (now >= next_check_) {
    next_check_ = now + kCheckInterval;
    poll_events();
    for (const auto& [serial, queue_pair] : by_serial_) queue_pair->check_patience(now);
  }
  return done + (std::exchange(news_, false) ? 1 : 0);
}

Time VerbsFabric::next_deadline() const {
  Time earliest = waiting_ == 0 ? Time::never() : next_check_;
  for (const Leaving& leaving : leaving_)
    if (!leaving.bring_up) earliest = std::min(earliest, leaving.drained_at_latest);
  return earliest;
}

std::size_t VerbsFabric::poll_device() {
  std::array<ibv_wc, kPolledAtOnce> completions;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(completions.size()), completions.data());
  if (count < 0) {
    fail_all("the RDMA device's completion queue failed");
    return 0;
  }
  for (const ibv_wc& completion : std::span(completions).first(static_cast<std::size_t>(count)))
    dispatch(completion);
  if (shared_receives_) shared_receives_->post(shared_tag());
  return static_cast<std::size_t>(count);
}

void VerbsFabric::dispatch(const ibv_wc& completion) {
  if ((completion.wr_id & kSharedReceive) != 0) {
    if ((completion.wr_id >> 32) != shared_tag() >> 32) return;
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    const auto found = by_number_.find(completion.qp_num);
    if (found == by_number_.end() || !found->second->on_shared_receive(completion, index))
      shared_receives_->give_back(index);
    return;
  }
  const auto found = by_serial_.find(static_cast<std::uint32_t>(completion.wr_id >> 1));
  if (found == by_serial_.end()) return;
  if ((completion.wr_id & 1) != 0) {
    found->second->on_receive(completion);
  } else {
    found->second->on_work(completion);
  }
}

void VerbsFabric::poll_events() {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context.get(), &event) == 0) {
    ++counters_.asynchronous_events;
    const std::string what = std::string("the RDMA device reports: ") + ibv_event_type_str(event.event_type);
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        if (const auto found = by_number_.find(event.element.qp->qp_num); found != by_number_.end())
          found->second->fail(event.event_type == IBV_EVENT_QP_ACCESS_ERR
                                  ? "the peer reached outside of what it was granted"
                                  : what);
        break;
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (const auto found = by_number_.find(event.element.qp->qp_num); found != by_number_.end()) {
          found->second->drained_ = true;
          found->second->fail(text_of(IBV_WC_WR_FLUSH_ERR));
        }
        for (Leaving& leaving : leaving_)
          if (leaving.handle && leaving.handle->qp_num == event.element.qp->qp_num) leaving.drained = true;
        break;
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_DEVICE_FATAL: fail_all(what); break;
      // Changes of ports and addresses need no action here. They become visible as retries.
      default: break;
    }
    ibv_ack_async_event(&event);
  }
}

void VerbsFabric::fail_all(const std::string& cause) {
  broken_ = true;
  for (const auto& [serial, queue_pair] : by_serial_) queue_pair->fail(cause);
}

Time VerbsFabric::prepare_wait(Time deadline) {
  if (undelivered_ != 0 || news_) return Time{};
  // The notification is requested first, and then the device is polled once more. So a completion that
  // arrives between the two steps is not missed.
  if (ibv_req_notify_cq(completions_.get(), 0) != 0 || poll_device() != 0) return Time{};
  return deadline;
}

std::array<pollfd, 3> VerbsFabric::events_to_wait_for() const {
  return {{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
           {.fd = channel_->fd, .events = POLLIN, .revents = 0},
           {.fd = broken_ ? -1 : device_.context->async_fd, .events = POLLIN, .revents = 0}}};
}

void VerbsFabric::wait(Time deadline) {
  const Time until = prepare_wait(deadline), now = monotonic_now();
  if (until <= now) return;
  const std::int64_t left = std::min(until - now, seconds(3600)).ns;
  const timespec longest{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  auto watched = events_to_wait_for();
  if (ppoll(watched.data(), watched.size(), &longest, nullptr) > 0) finish_wait();
}

Result<std::vector<int>> VerbsFabric::wait_descriptors() {
  return std::vector{wake_.get(), channel_->fd, device_.context->async_fd};
}

void VerbsFabric::finish_wait() {
  auto watched = events_to_wait_for();
  constexpr timespec kNoTime{};
  if (ppoll(watched.data(), watched.size(), &kNoTime, nullptr) <= 0) return;
  std::uint64_t wakes = 0;
  if (watched[0].revents != 0) [[maybe_unused]]
    const auto drained = read(wake_.get(), &wakes, sizeof wakes);
  if (watched[1].revents != 0) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
  }
  if (watched[2].revents != 0) next_check_ = Time{};
}

void VerbsFabric::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
}

}  // namespace rdmc::fabric
