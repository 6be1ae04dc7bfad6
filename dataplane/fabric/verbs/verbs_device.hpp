// The RDMA device that has a RoCE v2 address of this host, opened: which of its ports and GIDs that is, and
// what it can do. A value that owns the device's context and one protection domain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/fabric/verbs/verbs_handle.hpp"

namespace rdmc::fabric {

struct VerbsDevice {
  /// Finds the device whose GID table has `address` (its port number does not matter) as RoCE v2, and opens
  /// it. Errors: not_found (none has), unsupported (its link is down; the kernel has no RDMA), those of the
  /// operating system.
  static Result<VerbsDevice> open(const Address& address);

  /// READs and atomics under way: as many as are wanted and the device takes, which says so in one of two
  /// `limits`; at least 1.
  static std::uint8_t reads_at_most(std::uint8_t wanted, int limit) {
    return static_cast<std::uint8_t>(std::min<int>(wanted, std::max(limit, 1)));
  }

  VerbsHandle<ibv_context> context;
  VerbsHandle<ibv_pd> domain;
  std::string name;  ///< "mlx5_0", "rxe0"
  std::uint8_t port = 0, gid_index = 0;
  std::uint32_t path_mtu = 0;         ///< active: 256 … 4096
  std::uint32_t largest_message = 0;  ///< bytes
  ibv_device_attr limits{};
};

}  // namespace rdmc::fabric
