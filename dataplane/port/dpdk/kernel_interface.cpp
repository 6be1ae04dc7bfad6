#include "dataplane/port/dpdk/kernel_interface.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace rdmc::port::dpdk {

Result<KernelInterfaces> KernelInterfaces::open() {
  Descriptor socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd) return fail_errno("a socket to ask the kernel of its network interfaces", errno);
  return KernelInterfaces(std::move(socket_fd));
}

Result<KernelInterface> KernelInterfaces::find(std::string_view name) const {
  const std::string what = "the network interface '" + std::string(name) + "'";
  ifreq request{};
  const bool may_be = !name.empty() && name.size() < sizeof request.ifr_name;
  if (!may_be) return fail(Errc::not_found, what);
  std::ranges::copy(name, request.ifr_name);
  if (ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0)
    return errno == ENODEV ? fail(Errc::not_found, what) : fail_errno(what, errno);
  const bool up = (request.ifr_flags & IFF_UP) != 0;
  KernelInterface found{.up = up, .linked = up && (request.ifr_flags & IFF_RUNNING) != 0};
  if (ioctl(socket_.get(), SIOCGIFMTU, &request) == 0)
    found.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  return found;
}

}  // namespace rdmc::port::dpdk
