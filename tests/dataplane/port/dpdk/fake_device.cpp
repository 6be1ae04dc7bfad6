#include "tests/dataplane/port/dpdk/fake_device.hpp"

#include <cstring>

using rdmc::port::dpdk::testing::fake;
using rdmc::port::dpdk::testing::FakeDevice;

namespace {

template <typename Item>
void copy(const rte_flow_item& item, Item& spec, Item& mask) {
  std::memcpy(&spec, item.spec, sizeof spec);
  std::memcpy(&mask, item.mask, sizeof mask);
}

FakeDevice::Rule read_rule(const rte_flow_item* item, const rte_flow_action* action) {
  FakeDevice::Rule rule;
  for (; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) {
    rule.items.push_back(item->type);
    if (item->type == RTE_FLOW_ITEM_TYPE_IPV4) copy(*item, rule.ipv4, rule.ipv4_mask);
    if (item->type == RTE_FLOW_ITEM_TYPE_IPV6) copy(*item, rule.ipv6, rule.ipv6_mask);
    if (item->type == RTE_FLOW_ITEM_TYPE_UDP) copy(*item, rule.udp, rule.udp_mask);
  }
  for (; action->type != RTE_FLOW_ACTION_TYPE_END; ++action) {
    if (action->type == RTE_FLOW_ACTION_TYPE_QUEUE)
      rule.queue = static_cast<const rte_flow_action_queue*>(action->conf)->index;
  }
  return rule;
}

void take_interrupt(int descriptor, void*) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto bytes = read(descriptor, &count, sizeof count);
}

}  // namespace

extern "C" {

int rte_flow_validate(std::uint16_t, const rte_flow_attr*, const rte_flow_item*, const rte_flow_action*,
                      rte_flow_error*) {
  return fake().has_rules ? 0 : -ENOTSUP;
}

rte_flow* rte_flow_create(std::uint16_t, const rte_flow_attr* attributes, const rte_flow_item* items,
                          const rte_flow_action* actions, rte_flow_error*) {
  FakeDevice& device = fake();
  ++device.rules_asked_for;
  if (device.rules.size() == device.most_rules || attributes->ingress == 0) return nullptr;
  const std::uintptr_t handle = device.rules_asked_for;
  device.rules.emplace(handle, read_rule(items, actions));
  return reinterpret_cast<rte_flow*>(handle);
}

int rte_flow_destroy(std::uint16_t, rte_flow* flow, rte_flow_error*) {
  return fake().rules.erase(reinterpret_cast<std::uintptr_t>(flow)) == 1 ? 0 : -ENOENT;
}

// Works as librte_eal does for an eventfd of vfio (rte_intr_rx_ctl): the event is edge-triggered, and a
// callback reads it.
int rte_eth_dev_rx_intr_ctl_q(std::uint16_t port, std::uint16_t queue, int epoll, int what, void*) {
  auto& [descriptor, event] = fake().interrupts[{port, queue}];
  event.epdata = {
      .event = EPOLLIN | EPOLLPRI | EPOLLET, .data = nullptr, .cb_fun = take_interrupt, .cb_arg = nullptr};
  return rte_epoll_ctl(epoll, what == RTE_INTR_EVENT_ADD ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, descriptor, &event);
}

int rte_eth_dev_rx_intr_enable(std::uint16_t, std::uint16_t queue) {
  if (fake().refuses == queue) return -EIO;
  ++fake().enabled;
  return 0;
}

int rte_eth_dev_rx_intr_disable(std::uint16_t, std::uint16_t) {
  ++fake().disabled;
  return 0;
}

int rte_eth_link_get_nowait(std::uint16_t port, rte_eth_link* link) {
  // For a memif, rte_eth_link_get has the same result, because it does not wait for a memif's link.
  const int result = rte_eth_link_get(port, link);
  if (fake().link_up) link->link_status = *fake().link_up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
  return result;
}

}  // extern "C"
