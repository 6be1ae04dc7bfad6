// Finds out whether an RDMA device of this host uses RoCE v2 at an address. Such a device takes every packet
// to UDP port 4791 of its addresses before the kernel's sockets see the packet. A socket can still be bound
// to this port, but it receives nothing. These functions read sysfs and keep no state.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"

namespace rdmc::port {

/// The kernel's directory of RDMA devices.
inline constexpr const char* kRdmaDevices = "/sys/class/infiniband";

/// Returns the device (for example "mlx5_0") that has a RoCE v2 GID for `address` in its table. Returns
/// nullopt if no device has such a GID. `devices` is a directory with the same layout as kRdmaDevices.
std::optional<std::string> rdma_device_at(const Address& address,
                                          const std::filesystem::path& devices = kRdmaDevices);

/// An entry of a device's table of RoCE v2 addresses.
struct RdmaGid {
  std::string device;
  std::uint32_t port = 0, index = 0;
  Address address;  ///< The port number is 0.
};
/// Returns all entries of all devices, sorted by device, port and index.
std::vector<RdmaGid> rdma_gids(const std::filesystem::path& devices = kRdmaDevices);

}  // namespace rdmc::port
