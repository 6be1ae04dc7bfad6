// What the kernel says of a network interface by its name, for devices that sit on one (AF_PACKET, AF_XDP):
// DPDK does not look. Owns the socket that it asks through, so that asking again can fail for no want of
// descriptors. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::port::dpdk {

struct KernelInterface {
  bool up = false;      ///< switched on
  bool linked = false;  ///< … and there is somebody at the other end
  std::uint32_t mtu = 0;
};

class KernelInterfaces {
 public:
  /// Errors: resource_limit (no descriptor left), others of socket(2): nothing is known of any interface.
  static Result<KernelInterfaces> open();
  /// Errors: not_found (there is no such interface), others of the kernel's: nothing is known of it.
  Result<KernelInterface> find(std::string_view name) const;

 private:
  explicit KernelInterfaces(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace rdmc::port::dpdk
