// The udp driver: a Port over ordinary, unconnected UDP sockets. It is the fallback that always works - no
// root, no module, no NIC - and still moves several times what kernel TCP moves, because trains pass the
// kernel in one call (UDP_SEGMENT, UDP_GRO) and payload is scattered straight into place: one copy on each
// side, none added.
//
// The port owns its sockets and the memory of whatever did not land as planned. It may be opened by any
// thread; the first that receives or waits owns it from then on.
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

/// Whether a feature of the kernel is used: `automatic` falls back silently but for a line in
/// PortInfo::notes, `on` makes its absence an error, `off` behaves as an older kernel would.
enum class Use : std::uint8_t { automatic, on, off };

struct UdpPortOptions {
  /// Concrete, never a wildcard: the ICRC covers it. Port 0 lets the kernel choose; 4791 is RoCE's own.
  Address address;
  std::uint8_t dscp = 0;  ///< see PortRequest
  /// Asked for each flow; the kernel's limit (net.core.rmem_max) applies without CAP_NET_ADMIN, see PortInfo.
  std::uint32_t receive_buffer_bytes = 8U << 20;
  std::uint32_t send_buffer_bytes = 1U << 20;
  /// Microseconds for which a receiving call polls the device itself (SO_BUSY_POLL); 0 = never.
  std::uint32_t busy_poll_us = 0;
  Use segmentation = Use::automatic;    ///< UDP_SEGMENT: without it datagrams are sent one by one
  Use receive_trains = Use::automatic;  ///< UDP_GRO: without it they arrive one by one
  Use io_uring = Use::automatic;        ///< to learn which flows are readable; without it epoll says so
  /// See rdma_device_at.
  std::filesystem::path rdma_devices = kRdmaDevices;
};

/// Opens the shared flow and tries out on it what the kernel can do.
/// Errors: invalid_argument (a wildcard or multicast address; no DSCP), already_exists (the UDP port is
/// taken, or it is 4791 and an RDMA device has it: another port of the address is free of either), not_found
/// (not an address of this host), permission_denied, resource_limit, unsupported (a feature asked for with
/// `on`), io_error.
Result<std::unique_ptr<Port>> open_udp_port(const UdpPortOptions& options);

/// The same with default options for a Registry. Always usable.
std::unique_ptr<Driver> udp_driver(std::filesystem::path rdma_devices = kRdmaDevices);

}  // namespace rdmc::port
