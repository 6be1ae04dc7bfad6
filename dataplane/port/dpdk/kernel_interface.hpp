// What the kernel says of a network interface by its name, for devices that sit on one (AF_PACKET, AF_XDP):
// DPDK does not look. Nothing is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rdmc::port::dpdk {

struct KernelInterface {
  bool up = false;      ///< switched on
  bool linked = false;  ///< … and there is somebody at the other end
  std::uint32_t mtu = 0;
};

/// None: there is no such interface.
std::optional<KernelInterface> find_kernel_interface(std::string_view name);

}  // namespace rdmc::port::dpdk
