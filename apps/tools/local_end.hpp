// What ibv_rc_pingpong's -d, -i and -g mean on a host whose fabrics need no RDMA device: which fabric carries
// the messages, and which address of this host they have. Looking at the host is the caller's; choosing is
// pure but for the table of RDMA devices, which is read where it says.
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
  std::string device;                      ///< an RDMA device, a network interface or a fabric; empty: any
  std::uint32_t port = 1;                  ///< of an RDMA device; anything else has one
  std::optional<std::uint32_t> gid_index;  ///< into the device's table; none: its first entry
};

struct LocalEnd {
  std::string fabric;              ///< as --fabric names it; empty: nothing was said of it
  std::optional<Address> address;  ///< none: that of the first contact
};

/// An RDMA device's table is the kernel's, of which only RoCE v2 entries can be chosen; an interface's is its
/// addresses (`addresses`, in their order), and that of a fabric those of all interfaces. Errors: not_found
/// (no such device, port or entry; names those there are), unsupported (a fabric that reaches no strangers).
Result<LocalEnd> choose_local_end(const DeviceWords& words,
                                  const std::vector<port::InterfaceAddress>& addresses,
                                  const std::filesystem::path& rdma_devices = port::kRdmaDevices);

}  // namespace rdmc::tools
