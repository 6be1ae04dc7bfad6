// The opened RDMA device that has a RoCE v2 address of this host: its port, its GID index, and its
// capabilities. A VerbsDevice owns the device's context and one protection domain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/fabric/verbs/verbs_handle.hpp"

namespace rdmc::fabric {

struct VerbsDevice {
  /// Finds and opens the device whose GID table contains `address` as a RoCE v2 GID. The port number of
  /// `address` is ignored. Errors: not_found if no device has the address, unsupported if the link of the
  /// device is down or the kernel has no RDMA, and the errors of the operating system.
  static Result<VerbsDevice> open(const Address& address);

  /// Returns the number of READs and atomics that may be in flight: the wanted number, but not more than the
  /// device's `limit`, and at least 1.
  static std::uint8_t reads_at_most(std::uint8_t wanted, int limit) {
    return static_cast<std::uint8_t>(std::min<int>(wanted, std::max(limit, 1)));
  }

  VerbsHandle<ibv_context> context;
  VerbsHandle<ibv_pd> domain;
  std::string name;  ///< For example "mlx5_0" or "rxe0".
  std::uint8_t port = 0, gid_index = 0;
  std::uint32_t path_mtu = 0;         ///< The active MTU: 256 to 4096.
  std::uint32_t largest_message = 0;  ///< The length of the longest message, in bytes.
  ibv_device_attr limits{};
};

}  // namespace rdmc::fabric
