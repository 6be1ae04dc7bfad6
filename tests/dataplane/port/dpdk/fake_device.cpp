#include "tests/dataplane/port/dpdk/fake_device.hpp"

using rdmc::port::dpdk::testing::fake;

namespace {

void take_interrupt(int descriptor, void*) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto bytes = read(descriptor, &count, sizeof count);
}

}  // namespace

extern "C" {

// Behaves like rte_intr_rx_ctl of librte_eal for an eventfd of vfio: the event is edge-triggered, and a
// callback reads it.
int rte_eth_dev_rx_intr_ctl_q(std::uint16_t port, std::uint16_t, int epoll, int what, void*) {
  auto& [descriptor, event] = fake().interrupts[port];
  event.epdata = {
      .event = EPOLLIN | EPOLLPRI | EPOLLET, .data = nullptr, .cb_fun = take_interrupt, .cb_arg = nullptr};
  return rte_epoll_ctl(epoll, what == RTE_INTR_EVENT_ADD ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, descriptor, &event);
}

int rte_eth_dev_rx_intr_enable(std::uint16_t, std::uint16_t) {
  if (fake().refuses_to_arm) return -EIO;
  ++fake().enabled;
  return 0;
}

int rte_eth_dev_rx_intr_disable(std::uint16_t, std::uint16_t) {
  ++fake().disabled;
  return 0;
}

int rte_eth_link_get_nowait(std::uint16_t port, rte_eth_link* link) {
  // For a memif, rte_eth_link_get gives the same result and does not wait either.
  const int result = rte_eth_link_get(port, link);
  if (fake().link_up) link->link_status = *fake().link_up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return result;
}

}  // extern "C"
