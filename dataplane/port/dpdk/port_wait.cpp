// Waiting. If the device has interrupts, the port sleeps until an interrupt arrives. Otherwise the port polls
// the device, and naps between the polls. The naps become longer.
#include <poll.h>
#include <rte_epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "dataplane/base/clock.hpp"
#include "dataplane/port/dpdk/dpdk_port.hpp"
#include "dataplane/port/dpdk/eal.hpp"

namespace rdmc::port::dpdk {
namespace {

/// The first and the longest nap. The longest nap determines the cost of an idle port without interrupts (1 %
/// of a core), and how long the first packet on such a port may wait.
constexpr Duration kFirstNap = microseconds(20), kLongestNap = microseconds(500);

/// Consumes the event of the eventfd after a wake() has ended a sleep. The flag of the WakeEvent stays set.
void drain(const pollfd& event) {
  std::uint64_t count = 0;
  if (event.revents != 0) [[maybe_unused]]
    const auto bytes = read(event.fd, &count, sizeof count);
}

/// Consumes the pending interrupts by the method that each device requires. Otherwise these interrupts would
/// end every further sleep at once. For a TAP, nothing is read, because its descriptor contains the packets.
void take_interrupts(int descriptor) {
  std::array<rte_epoll_event, 2> events;
  rte_epoll_wait(descriptor, events.data(), static_cast<int>(events.size()), 0);
}

timespec until_deadline(Time now, Time until) {
  const std::int64_t ns = std::max<std::int64_t>(0, until.ns - now.ns);
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

}  // namespace

void DpdkPort::wait(Time deadline) {
  register_this_thread();
  release_received();
  ++counters_.waits;
  count_drops();
  for (;;) {
    const Time now = monotonic_now();
    tick(now);
    if (held_packets_ == 0) held_packets_ = take_burst(kBurst);
    if (held_packets_ > 0 || now >= deadline || wake_.take()) return;
    const Time until =
        std::min({deadline, neighbours_.next_deadline(), link_is_lost() ? next_link_check_ : deadline});
    if (!interrupts_ || !sleep_until_interrupt(until)) doze(until);
    if (wake_.take()) return;
  }
}

/// Returns a time that is at most kLongestNap away. Interrupts would have to be armed and disarmed around
/// each wait. Instead, the caller sleeps for this short time and calls again.
Time DpdkPort::prepare_wait(Time deadline) {
  register_this_thread();
  release_received();
  ++counters_.waits;
  count_drops();
  const Time now = monotonic_now();
  tick(now);
  if (held_packets_ == 0) held_packets_ = take_burst(kBurst);
  if (held_packets_ > 0 || wake_.take()) return Time{};
  return std::min(deadline, now + kLongestNap);
}

/// Sleeps until an interrupt, until the time `until`, or until wake(). Returns false if the device has no
/// interrupt that could be waited for at the moment.
bool DpdkPort::sleep_until_interrupt(Time until) {
  if (rte_eth_dev_rx_intr_enable(device_->id(), Device::kQueue) != 0) return false;
  // This burst is needed because frames that arrived before the interrupt was armed do not raise the
  // interrupt.
  held_packets_ = take_burst(kBurst);
  if (held_packets_ == 0) {
    const timespec left = until_deadline(monotonic_now(), until);
    std::array<pollfd, 2> events{{{wake_.descriptor(), POLLIN, 0}, {interrupts_.get(), POLLIN, 0}}};
    ++counters_.system_calls;
    ppoll(events.data(), events.size(), until == Time::never() ? nullptr : &left, nullptr);
    drain(events[0]);
    if (events[1].revents != 0) take_interrupts(interrupts_.get());
  }
  rte_eth_dev_rx_intr_disable(device_->id(), Device::kQueue);
  return true;
}

/// Naps until a frame has arrived, until the time `until`, or until wake().
void DpdkPort::doze(Time until) {
  Duration nap = kFirstNap;
  pollfd event{wake_.descriptor(), POLLIN, 0};
  for (Time now = monotonic_now(); held_packets_ == 0 && now < until; now = monotonic_now()) {
    const timespec left = until_deadline(now, std::min(until, now + nap));
    ++counters_.system_calls;
    if (ppoll(&event, 1, &left, nullptr) > 0) return drain(event);
    nap = std::min(nap * 2, kLongestNap);
    held_packets_ = take_burst(kBurst);
  }
}

void DpdkPort::count_drops() {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(device_->id(), &stats) == 0)
    counters_.receive_dropped = stats.imissed + stats.rx_nombuf;
}

}  // namespace rdmc::port::dpdk
