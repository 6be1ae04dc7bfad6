// A fake network card with features that no device of the test machines has: receive interrupts, and a link
// that can be lost. This test program defines the DPDK functions for these features. Its functions replace
// DPDK's own functions in the module that the program loads. A process has one fake device.
#pragma once

#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

namespace rdmc::port::dpdk::testing {

struct FakeDevice {
  struct Interrupt {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rte_epoll_event event{};
  };
  std::map<std::uint16_t, Interrupt> interrupts;  ///< Indexed by DPDK's port number.
  bool refuses_to_arm = false;                    ///< True if the interrupt cannot be armed.
  std::atomic<std::uint32_t> enabled = 0, disabled = 0;
  void raise() const {
    const std::uint64_t one = 1;
    for (const auto& [port, interrupt] : interrupts) {
      [[maybe_unused]] const auto written = write(interrupt.descriptor, &one, sizeof one);
    }
  }

  std::optional<bool> link_up;  ///< If it is empty, the real state of the link is reported.
};

inline FakeDevice& fake() {
  static FakeDevice the_one;
  return the_one;
}

}  // namespace rdmc::port::dpdk::testing
