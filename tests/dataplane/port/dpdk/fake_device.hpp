// A fake network card with features that no device of the test machines has: rules that steer flows, receive
// interrupts, and a link that can be lost. The DPDK functions for these features are defined here, in the
// test program. They replace DPDK's own functions in the module that the program loads. There is one fake
// device for the process.
#pragma once

#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace rdmc::port::dpdk::testing {

struct FakeDevice {
  /// A rule as the port requested it.
  struct Rule {
    std::vector<rte_flow_item_type> items;
    rte_flow_item_ipv4 ipv4{}, ipv4_mask{};
    rte_flow_item_ipv6 ipv6{}, ipv6_mask{};
    rte_flow_item_udp udp{}, udp_mask{};
    std::uint16_t queue = 0;
  };
  bool has_rules = true;       ///< The answer when the port asks whether the device supports rules.
  std::size_t most_rules = 8;  ///< Further rules are refused.
  std::map<std::uintptr_t, Rule> rules;
  std::uint32_t rules_asked_for = 0;

  struct Interrupt {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rte_epoll_event event{};
  };
  /// Indexed by DPDK's port number and the queue.
  std::map<std::pair<std::uint16_t, std::uint16_t>, Interrupt> interrupts;
  std::optional<std::uint16_t> refuses;  ///< The queue whose interrupt cannot be armed.
  std::atomic<std::uint32_t> enabled = 0, disabled = 0;
  void raise() const {
    const std::uint64_t one = 1;
    for (const auto& [queue, interrupt] : interrupts) {
      [[maybe_unused]] const auto written = write(interrupt.descriptor, &one, sizeof one);
    }
  }

  std::optional<bool> link_up;  ///< Empty to report the real state of the link.
};

inline FakeDevice& fake() {
  static FakeDevice the_one;
  return the_one;
}

}  // namespace rdmc::port::dpdk::testing
