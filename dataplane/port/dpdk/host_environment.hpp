// Whether this machine lets a DPDK device be used, and if not, the exact command that changes it. Looking
// (inspect_host) is apart from judging (judge), which is pure, so that every remedy can be tested.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/port/dpdk/options.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::port::dpdk {

/// What matters for one device.
struct HostEnvironment {
  std::string no_descriptors;  ///< why DPDK would not get those it takes; empty: it would
  std::uint64_t total_hugepages = 0, free_hugepages = 0;  ///< of 2 MB
  std::uint64_t free_giant_pages = 0;                     ///< of 1 GB
  std::uint64_t capabilities = 0;                         ///< effective, as bits (capabilities(7))
  std::string program;                                    ///< the running program's path

  bool interface_there = false, interface_up = false;  ///< the one that iface= names
  std::string interface_unknown;           ///< why the kernel cannot be asked of it; empty: it was
  bool tun_there = false;                  ///< /dev/net/tun
  bool socket_directory_writable = false;  ///< where socket= of a memif lies
  std::string
      socket_closed;  ///< the socket of a memif's client that it may not open, or a directory on the way

  bool pci_there = false;
  std::string pci_driver;  ///< the kernel's for this device, empty: none
  std::string vfio_group;  ///< "/dev/vfio/7", empty: it is in none
  bool vfio_group_accessible = false;
};

/// Whether DPDK would get the file descriptors that it takes; it panics, or ends the process, where it does
/// not. They are taken for the moment of the call. Errors: resource_limit.
Result<void> room_for_descriptors();

HostEnvironment inspect_host(const DpdkOptions& options);

/// Pure.
Usability judge(const DpdkOptions& options, const HostEnvironment& host);

/// Free 2 MB pages that a port asks for: its packet buffers, DPDK's own tables, and some room.
inline constexpr std::uint64_t kHugepagesWanted = 64;

}  // namespace rdmc::port::dpdk
