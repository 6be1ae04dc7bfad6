#include "controlplane/connect/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rdmc::control {
namespace {

void set_option(int socket, int level, int option, int value) {
  // Each of these options is a hint or a limit. If the kernel lacks an option, the connection still works.
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

std::unexpected<Error> fail_link_local(const std::string& what) {
  return fail(Errc::unsupported, what + ": a link-local address; use one that all hosts reach");
}

std::string cannot_listen(const Address& address) {
  return "cannot listen on " + to_string(address);
}

}  // namespace

std::unexpected<Error> fail_socket(std::string_view what, int errno_value) {
  auto error = fail_errno(what, errno_value);
  switch (errno_value) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN: return fail(Errc::peer_failed, std::move(error.error().what));
    case EADDRINUSE: return fail(Errc::already_exists, std::move(error.error().what));
    case EADDRNOTAVAIL: return fail(Errc::not_found, std::move(error.error().what));
    case ENOBUFS: return fail(Errc::resource_limit, std::move(error.error().what));
    default: return error;
  }
}

socklen_t to_sockaddr(const Address& address, sockaddr_storage& storage) {
  std::memset(&storage, 0, sizeof storage);
  if (address.ipv6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::ranges::copy(address.bytes, v6.sin6_addr.s6_addr);
    return sizeof v6;
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  std::memcpy(&v4.sin_addr, address.bytes.data(), sizeof v4.sin_addr);
  return sizeof v4;
}

Address from_sockaddr(const sockaddr_storage& storage) {
  Address address;
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    address.ipv6 = true;
    address.port = ntohs(v6.sin6_port);
    std::ranges::copy(v6.sin6_addr.s6_addr, address.bytes.begin());
  } else if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    address.port = ntohs(v4.sin_port);
    std::memcpy(address.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
  }
  return address;
}

Result<Descriptor> reserve(const Address& address) {
  if (is_link_local(address)) return fail_link_local(cannot_listen(address));
  Descriptor socket(
      ::socket(address.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_socket(cannot_listen(address), errno);
  // With SO_REUSEADDR, several sockets can be bound to the address while none of them listens. One of them
  // can listen later.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ipv6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(address, storage);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0)
    return fail_socket(cannot_listen(address), errno);
  return socket;
}

Result<Descriptor> listen_on(const Address& address) {
  auto socket = reserve(address);
  if (socket && ::listen(socket->get(), SOMAXCONN) != 0) return fail_socket(cannot_listen(address), errno);
  return socket;
}

Result<Descriptor> accept_one(int listener, Address& peer) {
  for (;;) {
    sockaddr_storage storage;
    socklen_t length = sizeof storage;
    Descriptor socket(
        ::accept4(listener, reinterpret_cast<sockaddr*>(&storage), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      peer = from_sockaddr(storage);
      return socket;
    }
    // accept(2) requires that errors of the new connection itself are handled like "try again".
    switch (errno) {
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case ENETDOWN:
      case ENETUNREACH:
      case EHOSTDOWN:
      case EHOSTUNREACH: continue;
      default: return fail_socket("accept", errno);
    }
  }
}

Result<Descriptor> begin_connect(const Address& address) {
  if (is_link_local(address)) return fail_link_local("connect");
  Descriptor socket(
      ::socket(address.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_socket("socket", errno);
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(address, storage);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 && errno != EINPROGRESS)
    return fail_socket("connect", errno);
  return socket;
}

int connect_result(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  if (error != 0) return error;
  // A connect() can connect a socket to itself. This happens if its destination is a port of this host in the
  // ephemeral range, no socket listens there, and the kernel chooses the same port as the source.
  sockaddr_storage peer;
  length = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return errno;
  return from_sockaddr(peer) == local_address(socket) ? ECONNREFUSED : 0;
}

void set_channel_options(int socket, Duration limit) {
  const int milliseconds = static_cast<int>(std::clamp<std::int64_t>(limit.ns / 1'000'000, 1, 3'600'000));
  const int seconds = std::max(1, milliseconds / 1000);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
  // An idle connection has no unacknowledged bytes. With keepalive probes, the user timeout applies to it
  // too.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 3));
}

namespace {

/// The kernel's tcp_info up to min_rtt. The full struct is in linux/tcp.h. That header cannot be included
/// together with netinet/tcp.h.
struct TcpInfo {
  tcp_info known;
  std::uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
  std::uint32_t segs_out, segs_in, notsent_bytes;
  std::uint32_t min_rtt;  ///< In microseconds. All bits are set until the kernel has measured a value.
};
static_assert(offsetof(TcpInfo, min_rtt) == 148);

}  // namespace

std::optional<Duration> round_trip(int socket) {
  TcpInfo info{};
  info.min_rtt = UINT32_MAX;
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.min_rtt == UINT32_MAX)
    return {};
  return microseconds(info.min_rtt);
}

Address local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return from_sockaddr(storage);
}

}  // namespace rdmc::control
