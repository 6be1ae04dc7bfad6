// A UDP socket that fits RoCEv2: it is unconnected and never fragments. For such a socket, the kernel sets
// the IPv4 identification of a single datagram to 0, and that of datagram k of a train to k. The ICRC covers
// this field and can therefore be computed in advance. For a connected socket, the kernel would count from a
// random start.
#pragma once

#include <cstdint>
#include <utility>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/port/socket_address.hpp"

namespace rdmc::port {

struct UdpSocketOptions {
  std::uint32_t receive_buffer_bytes = 0;
  std::uint32_t send_buffer_bytes = 0;
  std::uint32_t busy_poll_us = 0;
  std::uint8_t traffic_class = 0;
  bool receive_trains = false;
};

class UdpSocket {
 public:
  UdpSocket() = default;

  /// Creates a non-blocking socket that is bound to `address`. A failure to set an option that only affects
  /// performance is ignored. Errors: already_exists, not_found, permission_denied, resource_limit,
  /// unsupported, io_error.
  static Result<UdpSocket> bind(const SocketAddress& address, const UdpSocketOptions& options);

  int descriptor() const { return descriptor_.get(); }
  Address address() const;  ///< Contains the port number that the kernel chose.
  bool set(int level, int option, int value) const;
  int get(int level, int option) const;  ///< Returns 0 if there is no such option.

 private:
  explicit UdpSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Result<void> configure(bool ipv6, const UdpSocketOptions& options) const;

  Descriptor descriptor_;
};

}  // namespace rdmc::port
