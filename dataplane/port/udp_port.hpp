// The udp driver: a Port on ordinary, unconnected UDP sockets. It is the fallback that always works: it needs
// no root rights, no module and no special NIC. It is nevertheless several times as fast as kernel TCP,
// because a train passes the kernel in one call (UDP_SEGMENT, UDP_GRO) and payload is scattered directly to
// its final memory. Each side copies the payload once.
//
// The port owns its sockets and the memory for bytes that did not fit the planned scatter list. Any thread
// may open a port. The first thread that receives or waits owns the port from then on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/port/driver.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/rdma_devices.hpp"

namespace rdmc::port {

/// Selects whether a feature of the kernel is used. With `automatic`, the port works without a missing
/// feature and only adds a line to PortInfo::notes. With `on`, a missing feature is an error. With `off`, the
/// port behaves as on an older kernel.
enum class Use : std::uint8_t { automatic, on, off };

struct UdpPortOptions {
  /// The address of the shared flow. It must not be a wildcard, because the ICRC covers the address. With
  /// port number 0 the kernel chooses a number. RoCE's own number is 4791.
  Address address;
  std::uint8_t dscp = 0;  ///< See PortRequest.
  /// The receive buffer that is requested for each flow. Without CAP_NET_ADMIN the kernel's limit
  /// (net.core.rmem_max) applies. PortInfo has the actual size.
  std::uint32_t receive_buffer_bytes = 8U << 20;
  std::uint32_t send_buffer_bytes = 1U << 20;
  /// The time in microseconds for which a receive call polls the device itself (SO_BUSY_POLL). 0 turns this
  /// off.
  std::uint32_t busy_poll_us = 0;
  Use segmentation = Use::automatic;  ///< UDP_SEGMENT is used. Without it, datagrams are sent one at a time.
  Use receive_trains =
      Use::automatic;             ///< UDP_GRO is used. Without it, datagrams are received one at a time.
  Use io_uring = Use::automatic;  ///< io_uring reports the readable flows. Without it, epoll is used.
  bool changes_threads = false;   ///< See PortRequest.
  /// The directory in which rdma_device_at finds the RDMA devices.
  std::filesystem::path rdma_devices = kRdmaDevices;
};

/// Opens the shared flow and tests which features the kernel has. Errors: invalid_argument (a wildcard or
/// multicast address, or not a DSCP), already_exists (the UDP port number is in use, or it is 4791 and
/// belongs to an RDMA device; another port number of the same address avoids both), not_found (not an address
/// of this host), permission_denied, resource_limit, unsupported (a feature was requested with `on`),
/// io_error.
Result<std::unique_ptr<Port>> open_udp_port(const UdpPortOptions& options);

/// Returns the driver that opens such ports with default options, for a Registry. The driver is always
/// usable.
std::unique_ptr<Driver> udp_driver(std::filesystem::path rdma_devices = kRdmaDevices);

}  // namespace rdmc::port
