// Checks whether this machine allows the use of a DPDK device. If the machine does not allow it, names the
// exact command that changes this. The inspection of the host (inspect_host) is separate from the judgement
// (judge). The judgement is pure, so that every remedy can be tested.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/port/dpdk/options.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::port::dpdk {

/// The state of the host, as far as one device needs it.
struct HostEnvironment {
  /// The reason why DPDK would not get the file descriptors that it needs. Empty if it would get them.
  std::string no_descriptors;
  std::uint64_t total_hugepages = 0, free_hugepages = 0;  ///< Pages of 2 MB.
  std::uint64_t free_giant_pages = 0;                     ///< Pages of 1 GB.
  std::uint64_t capabilities = 0;  ///< The effective capabilities as bits (capabilities(7)).
  std::string program;             ///< The path of the running program.

  /// True if the interface that the argument iface= names exists; and true if that interface is up.
  bool interface_there = false, interface_up = false;
  /// The reason why the kernel could not be asked about the interface. Empty if the kernel could be asked.
  std::string interface_unknown;
  bool tun_there = false;  ///< True if /dev/net/tun exists.
  /// True if the directory of the socket that a memif's argument socket= names can be read and written.
  bool socket_directory_writable = false;
  /// The path that a memif's client has no right to open: its socket, or a directory above the socket. Empty
  /// if there is no such path.
  std::string socket_closed;

  bool pci_there = false;
  std::string pci_driver;  ///< The name of the kernel's driver for this device. Empty if there is none.
  std::string vfio_group;  ///< For example "/dev/vfio/7". Empty if the device is in no group.
  bool vfio_group_accessible = false;
};

/// Checks that DPDK would get the file descriptors that it needs. Without these descriptors, DPDK panics or
/// ends the process. The check opens the descriptors and closes them again. Errors: resource_limit.
Result<void> room_for_descriptors();

HostEnvironment inspect_host(const DpdkOptions& options);

/// Decides from `host` whether the device can be used. The function is pure.
Usability judge(const DpdkOptions& options, const HostEnvironment& host);

/// The number of free 2 MB pages that a port needs, for its packet buffers and DPDK's own tables, with a
/// reserve.
inline constexpr std::uint64_t kHugepagesWanted = 64;

}  // namespace rdmc::port::dpdk
