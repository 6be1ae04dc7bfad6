// Interprets ibv_rc_pingpong's options -d, -i and -g on a host whose fabrics need no RDMA device. The result
// is the fabric that carries the messages, and the address of this host for them. The caller finds the
// addresses of the interfaces. The choice is a pure function, except that it reads the table of RDMA devices
// from `rdma_devices`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/port/network_interface.hpp"
#include "dataplane/port/rdma_devices.hpp"

namespace rdmc::tools {

struct DeviceWords {
  std::string device;      ///< An RDMA device, a network interface or a fabric; empty means any.
  std::uint32_t port = 1;  ///< The port of an RDMA device. Interfaces and fabrics have only port 1.
  /// The index in the device's table. nullopt means the table's first entry.
  std::optional<std::uint32_t> gid_index;
};

struct LocalEnd {
  std::string fabric;              ///< The value for --fabric. Empty if the options do not name a fabric.
  std::optional<Address> address;  ///< nullopt means the address of the first contact
};

/// Chooses the fabric and the address. For an RDMA device, the index counts the entries of the kernel's
/// table, and only RoCE v2 entries can be chosen. For an interface, the index counts its addresses in the
/// order of `addresses`. For a fabric, the index counts the addresses of all interfaces. Errors: not_found if
/// there is no such device, port or entry (the message names the existing ones), unsupported if the fabric
/// does not reach foreign endpoints.
Result<LocalEnd> choose_local_end(const DeviceWords& words,
                                  const std::vector<port::InterfaceAddress>& addresses,
                                  const std::filesystem::path& rdma_devices = port::kRdmaDevices);

}  // namespace rdmc::tools
