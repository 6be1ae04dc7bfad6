// Whether an RDMA device of this host speaks RoCE v2 at an address. Such a device takes every packet to UDP
// port 4791 of its addresses before the kernel's sockets see it: one that is bound there anyway hears
// nothing. Looks at sysfs; no state.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"

namespace rdmc::port {

/// The kernel's table of RDMA devices.
inline constexpr const char* kRdmaDevices = "/sys/class/infiniband";

/// The device (e.g. "mlx5_0") that has a RoCE v2 GID for `address` in its table; nothing if none has, or
/// there are no RDMA devices at all. `devices`: a directory laid out as kRdmaDevices.
std::optional<std::string> rdma_device_at(const Address& address,
                                          const std::filesystem::path& devices = kRdmaDevices);

/// An entry of a device's table of RoCE v2 addresses.
struct RdmaGid {
  std::string device;
  std::uint32_t port = 0, index = 0;
  Address address;  ///< port 0
};
/// All that the devices have, by device, port and index.
std::vector<RdmaGid> rdma_gids(const std::filesystem::path& devices = kRdmaDevices);

}  // namespace rdmc::port
