// Options and names. An option that has no meaning here is refused (ENOPROTOOPT), not ignored.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "controlplane/connect/socket.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
namespace {

/// True if the kernel's own socket keeps this option. Such an option is about the port number or the domain,
/// or its value changes nothing in this library: no data waits for more data (TCP_NODELAY), and a dead peer
/// is always noticed (SO_KEEPALIVE).
bool is_the_kernels(int level, int name) {
  if (level == SOL_SOCKET) {
    return name == SO_REUSEADDR || name == SO_REUSEPORT || name == SO_KEEPALIVE || name == SO_DOMAIN;
  }
  return level == IPPROTO_TCP && name == TCP_NODELAY;
}

Answer put(void* value, socklen_t* length, const void* what, std::size_t bytes) {
  if (value == nullptr || length == nullptr) return std::unexpected(EFAULT);
  *length = std::min(*length, static_cast<socklen_t>(bytes));
  std::memcpy(value, what, *length);
  return 0;
}

timeval to_timeval(Duration duration) {
  return {.tv_sec = duration.ns / 1'000'000'000, .tv_usec = duration.ns % 1'000'000'000 / 1000};
}

/// Converts a timeval. Errors: EINVAL, EDOM.
std::expected<Duration, int> to_duration(const void* value, socklen_t length) {
  timeval time;
  if (length < sizeof time) return std::unexpected(EINVAL);
  std::memcpy(&time, value, sizeof time);
  if (time.tv_usec < 0 || time.tv_usec >= 1'000'000) return std::unexpected(EDOM);
  // In Linux, a negative time means that calls do not wait at all. Here it becomes the shortest time.
  if (time.tv_sec < 0) return nanoseconds(1);
  return seconds(std::min<std::int64_t>(time.tv_sec, 1'000'000'000)) + microseconds(time.tv_usec);
}

}  // namespace

Answer Stack::get_option(int fd, int level, int name, void* value, socklen_t* length) {
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  OpenSocket& socket = **found;
  const auto put_int = [&](int number) { return put(value, length, &number, sizeof number); };
  if (is_the_kernels(level, name)) {
    if (::getsockopt(socket.kernel(), level, name, value, length) == 0) return 0;
    return std::unexpected(errno);
  }
  if (level == RDMC_SOL_SOCKET && name == RDMC_SO_MEMBERS && socket.group)
    return put_int(static_cast<int>(socket.group->members));
  if (level == RDMC_SOL_SOCKET && name == RDMC_SO_GROUP && socket.group)
    return put(value, length, socket.group_name.c_str(), socket.group_name.size() + 1);
  if (level == RDMC_SOL_SOCKET && name == RDMC_SO_FABRIC) {
    if (!socket.socket.has_peer()) return std::unexpected(ENOTCONN);
    const std::string& fabric = socket.socket.stream()->outlet()->description();
    return put(value, length, fabric.c_str(), fabric.size() + 1);
  }
  if (level == RDMC_SOL_SOCKET && name == RDMC_SO_COPIED) {
    const std::uint64_t copied = socket.socket.stream()->copied();
    return put(value, length, &copied, sizeof copied);
  }
  if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && socket.ipv6) return put_int(1);
  if (level != SOL_SOCKET) return std::unexpected(ENOPROTOOPT);
  switch (name) {
    case SO_ERROR: return put_int(socket.socket.take_error());
    case SO_TYPE:
      return put_int(socket.group                     ? RDMC_GROUP
                     : socket.socket.keeps_messages() ? SOCK_SEQPACKET
                                                      : SOCK_STREAM);
    case SO_PROTOCOL: return put_int(socket.socket.keeps_messages() ? 0 : IPPROTO_TCP);
    case SO_ACCEPTCONN: return put_int(socket.socket.backlog() != nullptr);
    case SO_SNDBUF: return put_int(Stream::kSendBytes);
    case SO_RCVBUF: return put_int(Stream::kWindowBytes);
    case SO_LINGER: {
      const linger now{.l_onoff = socket.linger_seconds.has_value(),
                       .l_linger = socket.linger_seconds.value_or(0)};
      return put(value, length, &now, sizeof now);
    }
    case SO_RCVTIMEO:
    case SO_SNDTIMEO: {
      const timeval time = to_timeval(name == SO_RCVTIMEO ? socket.receive_timeout : socket.send_timeout);
      return put(value, length, &time, sizeof time);
    }
    default: return std::unexpected(ENOPROTOOPT);
  }
}

Answer Stack::set_option(int fd, int level, int name, const void* value, socklen_t length) {
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  if (value == nullptr) return std::unexpected(EFAULT);
  if (is_the_kernels(level, name)) {
    if (::setsockopt((*found)->kernel(), level, name, value, length) == 0) return 0;
    return std::unexpected(errno);
  }
  if (level == RDMC_SOL_SOCKET && name == RDMC_SO_GROUP && (*found)->group)
    return set_group_name(**found, {static_cast<const char*>(value), length});
  return level == SOL_SOCKET ? set_own_option(**found, name, value, length) : std::unexpected(ENOPROTOOPT);
}

Answer Stack::set_own_option(OpenSocket& socket, int name, const void* value, socklen_t length) {
  if (name == SO_LINGER) {
    linger wanted;
    if (length < sizeof wanted) return std::unexpected(EINVAL);
    std::memcpy(&wanted, value, sizeof wanted);
    socket.linger_seconds.reset();
    if (wanted.l_onoff != 0) socket.linger_seconds = std::max(wanted.l_linger, 0);
    return 0;
  }
  if (name != SO_RCVTIMEO && name != SO_SNDTIMEO) return std::unexpected(ENOPROTOOPT);
  const auto time = to_duration(value, length);
  if (!time) return std::unexpected(time.error());
  (name == SO_RCVTIMEO ? socket.receive_timeout : socket.send_timeout) = *time;
  return 0;
}

void Stack::count_copied(int fd, std::size_t bytes) {
  const Lock lock(lock_);
  if (const auto found = find(fd)) (*found)->socket.stream()->count_copied(bytes);
}

Answer Stack::get_name(int fd, sockaddr* address, socklen_t* length, bool of_peer) {
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const OpenSocket& socket = **found;
  if (of_peer && !socket.socket.has_peer()) return std::unexpected(ENOTCONN);
  if (address == nullptr || length == nullptr) return std::unexpected(EFAULT);
  const bool is_connected = socket.local != Address{};
  sockaddr_storage storage;
  const Address name = of_peer        ? socket.peer
                       : is_connected ? socket.local
                                      : control::local_address(socket.kernel());
  const socklen_t full = control::to_sockaddr(name, storage);
  std::memcpy(address, &storage, std::min(*length, full));
  *length = full;
  return 0;
}

}  // namespace rdmc::sockets
