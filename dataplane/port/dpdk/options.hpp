// What a user says about a DPDK port, parsed from one line of words:
//   vdev=net_memif0,role=server,socket=/tmp/s address=10.0.0.1/24 gateway=10.0.0.254 mtu=4242 huge=no
// Pure; values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::port::dpdk {

struct DpdkOptions {
  std::string device;              ///< EAL device arguments: a name, and KEY=VALUE after commas
  bool is_virtual = true;          ///< vdev= rather than pci=: needs no bus to be scanned
  std::optional<Address> address;  ///< of the port, if it is named here; without a port number
  std::uint8_t prefix_bits = 0;    ///< 0: 24, for IPv6 64
  std::optional<Address> gateway;
  std::uint32_t mtu = 0;  ///< largest IP packet; 0: what the device is set to
  bool hugepages = true;  ///< huge=no: ordinary pages, for a try

  /// The device's name without arguments: "net_memif0".
  std::string_view device_name() const;
  /// The driver's name in it, without the number: "net_memif"; the whole name of a PCI device.
  std::string_view driver_name() const;
  /// The value of a device argument, empty if it is not given.
  std::string_view device_argument(std::string_view key) const;
};

/// Errors: invalid_argument, naming the word and the words there are.
Result<DpdkOptions> parse_options(std::string_view text);

}  // namespace rdmc::port::dpdk
