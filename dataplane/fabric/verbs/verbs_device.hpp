// The opened RDMA device that has a RoCE v2 address of this host: its port, its GID index, and its
// capabilities. A value that owns the device's context and one protection domain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/fabric/verbs/verbs_handle.hpp"

namespace rdmc::fabric {

struct VerbsDevice {
  /// Finds and opens the device whose GID table contains `address` as RoCE v2 GID; the port number does not
  /// matter. Errors: not_found if no device has it, unsupported if its link is down or the kernel has no
  /// RDMA, and the errors of the operating system.
  static Result<VerbsDevice> open(const Address& address);

  /// The READs and atomics that may be in flight: the wanted number, but no more than the device's `limit`;
  /// at least 1.
  static std::uint8_t reads_at_most(std::uint8_t wanted, int limit) {
    return static_cast<std::uint8_t>(std::min<int>(wanted, std::max(limit, 1)));
  }

  VerbsHandle<ibv_context> context;
  VerbsHandle<ibv_pd> domain;
  std::string name;  ///< "mlx5_0", "rxe0"
  std::uint8_t port = 0, gid_index = 0;
  std::uint32_t path_mtu = 0;         ///< The active MTU: 256 to 4096.
  std::uint32_t largest_message = 0;  ///< In bytes.
  ibv_device_attr limits{};
};

}  // namespace rdmc::fabric
