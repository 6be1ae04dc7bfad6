// Asks the kernel about a network interface by its name, for devices that use an interface (AF_PACKET,
// AF_XDP), because DPDK does not ask. Owns the socket for these queries, so that a later query cannot fail
// for lack of descriptors. May be used on any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::port::dpdk {

struct KernelInterface {
  bool up = false;      ///< True if the interface is switched on.
  bool linked = false;  ///< True if the interface is also connected to an active other end.
  std::uint32_t mtu = 0;
};

class KernelInterfaces {
 public:
  /// Opens the socket for queries. Errors: resource_limit (no free descriptor), or another error of
  /// socket(2). After an error, no interface can be queried.
  static Result<KernelInterfaces> open();
  /// Queries an interface. Errors: not_found (there is no such interface), or another error of the kernel.
  /// After another error, nothing is known about the interface.
  Result<KernelInterface> find(std::string_view name) const;

 private:
  explicit KernelInterfaces(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace rdmc::port::dpdk
