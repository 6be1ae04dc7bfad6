// The user's options for a DPDK port, parsed from one line of words, for example:
// vdev=net_memif0,role=server,socket=/tmp/s address=10.0.0.1/24 gateway=10.0.0.254 mtu=4242 huge=no The
// functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::port::dpdk {

struct DpdkOptions {
  std::string device;      ///< EAL device arguments: a name, then KEY=VALUE pairs after commas.
  bool is_virtual = true;  ///< True for vdev=, which needs no scan of a bus. False for pci=.
  /// The address of the port, if the options have one. Without a port number.
  std::optional<Address> address;
  std::uint8_t prefix_bits = 0;  ///< The length of the address prefix. 0 means 24 for IPv4 and 64 for IPv6.
  std::optional<Address> gateway;
  /// The length of the largest IP packet. 0 means the MTU that the device is set to, or 9000 for a memif.
  std::uint32_t mtu = 0;
  bool hugepages = true;  ///< False for huge=no, which selects ordinary pages, for tests.

  /// The device's name without arguments, for example "net_memif0".
  std::string_view device_name() const;
  /// The name of the driver. This is the device's name without its number, for example "net_memif". For a PCI
  /// device, it is the whole name.
  std::string_view driver_name() const;
  /// Returns the value of a device argument, or an empty string if the argument is not given.
  std::string_view device_argument(std::string_view key) const;
};

/// Parses the options. Errors: invalid_argument. The message contains the wrong word. If the word is unknown,
/// the message also lists the known words.
Result<DpdkOptions> parse_options(std::string_view text);

}  // namespace rdmc::port::dpdk
