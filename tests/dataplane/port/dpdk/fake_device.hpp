// What a network card would do and no device of this machine does: rules that steer flows, interrupts for
// what arrives, a link that comes and goes. The functions that a program asks DPDK for these by are defined
// here, in the test program, and win over DPDK's own in the module that it loads. One for the process.
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
  /// A rule as it was asked for.
  struct Rule {
    std::vector<rte_flow_item_type> items;
    rte_flow_item_ipv4 ipv4{}, ipv4_mask{};
    rte_flow_item_ipv6 ipv6{}, ipv6_mask{};
    rte_flow_item_udp udp{}, udp_mask{};
    std::uint16_t queue = 0;
  };
  bool has_rules = true;       ///< it says so when it is asked whether it can
  std::size_t most_rules = 8;  ///< more are refused
  std::map<std::uintptr_t, Rule> rules;
  std::uint32_t rules_asked_for = 0;

  struct Interrupt {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rte_epoll_event event{};
  };
  std::map<std::pair<std::uint16_t, std::uint16_t>, Interrupt> interrupts;  ///< by DPDK's port and queue
  std::optional<std::uint16_t> refuses;  ///< a queue: its interrupt cannot be armed
  std::atomic<std::uint32_t> enabled = 0, disabled = 0;
  void raise() const {
    const std::uint64_t one = 1;
    for (const auto& [queue, interrupt] : interrupts) {
      [[maybe_unused]] const auto written = write(interrupt.descriptor, &one, sizeof one);
    }
  }

  std::optional<bool> link_up;  ///< none: as it is
};

inline FakeDevice& fake() {
  static FakeDevice the_one;
  return the_one;
}

}  // namespace rdmc::port::dpdk::testing
