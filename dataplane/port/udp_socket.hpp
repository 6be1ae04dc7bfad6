// One UDP socket as RoCEv2 needs it: unconnected and never fragmenting, because then the kernel gives IPv4
// datagrams the identification 0 (datagram k of a train: k), and the ICRC, which covers that field, can be
// computed in advance. A connected socket would count from a random start.
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

  /// Bound to `address`; non-blocking. Options that only tune are tried and not insisted on.
  /// Errors: already_exists, not_found, permission_denied, resource_limit, unsupported, io_error.
  static Result<UdpSocket> bind(const SocketAddress& address, const UdpSocketOptions& options);

  int descriptor() const { return descriptor_.get(); }
  Address address() const;  ///< with the port that the kernel chose
  bool set(int level, int option, int value) const;
  int get(int level, int option) const;  ///< 0 when there is no such option

 private:
  explicit UdpSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Result<void> configure(bool ipv6, const UdpSocketOptions& options) const;

  Descriptor descriptor_;
};

}  // namespace rdmc::port
