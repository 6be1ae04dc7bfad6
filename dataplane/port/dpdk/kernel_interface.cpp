#include "dataplane/port/dpdk/kernel_interface.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "dataplane/base/descriptor.hpp"

namespace rdmc::port::dpdk {

std::optional<KernelInterface> find_kernel_interface(std::string_view name) {
  ifreq request{};
  if (name.empty() || name.size() >= sizeof request.ifr_name) return std::nullopt;
  std::ranges::copy(name, request.ifr_name);
  const Descriptor socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (ioctl(socket_fd.get(), SIOCGIFFLAGS, &request) != 0) return std::nullopt;
  const bool up = (request.ifr_flags & IFF_UP) != 0;
  KernelInterface found{.up = up, .linked = up && (request.ifr_flags & IFF_RUNNING) != 0};
  if (ioctl(socket_fd.get(), SIOCGIFMTU, &request) == 0)
    found.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  return found;
}

}  // namespace rdmc::port::dpdk
