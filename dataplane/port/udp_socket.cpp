#include "dataplane/port/udp_socket.hpp"

#include <netinet/udp.h>

#include <cerrno>

namespace rdmc::port {

bool UdpSocket::set(int level, int option, int value) const {
  return setsockopt(descriptor_.get(), level, option, &value, sizeof value) == 0;
}

int UdpSocket::get(int level, int option) const {
  int value = 0;
  socklen_t length = sizeof value;
  getsockopt(descriptor_.get(), level, option, &value, &length);
  return value;
}

Address UdpSocket::address() const {
  SocketAddress bound;
  socklen_t length = sizeof bound;
  getsockname(descriptor_.get(), &bound.generic, &length);
  return bound.address();
}

Result<void> UdpSocket::configure(bool ipv6, const UdpSocketOptions& options) const {
  const bool never_fragments =
      ipv6 ? set(SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) && set(SOL_IPV6, IPV6_V6ONLY, 1)
           : set(SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  if (!never_fragments) return fail_errno("a UDP socket that never fragments", errno);
  if (ipv6) {
    set(SOL_IPV6, IPV6_RECVTCLASS, 1);
    // Accepts IPv6 packets without a UDP checksum. NICs and Soft-RoCE send none, because the ICRC is
    // stronger.
    set(SOL_UDP, UDP_NO_CHECK6_RX, 1);
  } else {
    set(SOL_IP, IP_RECVTOS, 1);
  }
  if (options.traffic_class != 0 &&
      !set(ipv6 ? SOL_IPV6 : SOL_IP, ipv6 ? IPV6_TCLASS : IP_TOS, options.traffic_class))
    return fail_errno("marking packets with a DSCP", errno);
  set(SOL_SOCKET, SO_RXQ_OVFL, 1);
  const auto receive_bytes = static_cast<int>(options.receive_buffer_bytes);
  if (!set(SOL_SOCKET, SO_RCVBUFFORCE, receive_bytes)) set(SOL_SOCKET, SO_RCVBUF, receive_bytes);
  const auto send_bytes = static_cast<int>(options.send_buffer_bytes);
  if (!set(SOL_SOCKET, SO_SNDBUFFORCE, send_bytes)) set(SOL_SOCKET, SO_SNDBUF, send_bytes);
  if (options.busy_poll_us > 0) set(SOL_SOCKET, SO_BUSY_POLL, static_cast<int>(options.busy_poll_us));
  if (options.receive_trains && !set(SOL_UDP, UDP_GRO, 1)) return fail_errno("UDP_GRO", errno);
  return {};
}

Result<UdpSocket> UdpSocket::bind(const SocketAddress& address, const UdpSocketOptions& options) {
  const int family = address.generic.sa_family;
  UdpSocket made(Descriptor(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (!made.descriptor_) return fail_errno("UDP socket", errno);
  if (auto done = made.configure(family == AF_INET6, options); !done) return std::unexpected(done.error());
  if (::bind(made.descriptor(), &address.generic, address.size()) != 0) {
    const std::string where = "UDP address " + to_string(address.address());
    if (errno == EADDRINUSE) return fail(Errc::already_exists, where + " is in use");
    if (errno == EADDRNOTAVAIL) return fail(Errc::not_found, where + " is not on this host");
    return fail_errno(where, errno);
  }
  return made;
}

}  // namespace rdmc::port
