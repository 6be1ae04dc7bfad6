#include "dataplane/port/network_interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "dataplane/port/socket_address.hpp"

namespace rdmc::port {
namespace {

Address address_of(const sockaddr& generic) {
  SocketAddress copy;
  if (generic.sa_family == AF_INET6)
    copy.ipv6 = reinterpret_cast<const sockaddr_in6&>(generic);
  else
    copy.ipv4 = reinterpret_cast<const sockaddr_in&>(generic);
  return copy.address();
}

bool same_prefix(const Address& a, const Address& b, const Address& mask) {
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    if ((a.bytes[i] & mask.bytes[i]) != (b.bytes[i] & mask.bytes[i])) return false;
  }
  return true;
}

using AddressList = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

Result<AddressList> all_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fail_errno("getifaddrs", errno);
  return AddressList(list, &freeifaddrs);
}

bool has(const ifaddrs& entry, const Address& wanted) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != (wanted.ipv6 ? AF_INET6 : AF_INET))
    return false;
  const Address own = address_of(*entry.ifa_addr);
  if (own.bytes == wanted.bytes) return true;
  return (entry.ifa_flags & IFF_LOOPBACK) != 0 && entry.ifa_netmask != nullptr &&
         same_prefix(own, wanted, address_of(*entry.ifa_netmask));
}

Result<std::uint32_t> mtu_of(const std::string& name) {
  const int query = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (query < 0) return fail_errno("socket", errno);
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const int failed = ioctl(query, SIOCGIFMTU, &request) == 0 ? 0 : errno;
  close(query);
  if (failed != 0) return fail_errno("MTU of " + name, failed);
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

}  // namespace

Result<NetworkInterface> find_interface(const Address& address) {
  const auto list = all_addresses();
  if (!list) return std::unexpected(list.error());
  for (const ifaddrs* entry = list->get(); entry != nullptr; entry = entry->ifa_next) {
    if (!has(*entry, address)) continue;
    NetworkInterface found{.name = entry->ifa_name,
                           .index = if_nametoindex(entry->ifa_name),
                           .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0};
    const auto mtu = mtu_of(found.name);
    if (!mtu) return std::unexpected(mtu.error());
    found.mtu = *mtu;
    return found;
  }
  return fail(Errc::not_found, host_string(address) + " is not an address of this host");
}

Result<std::vector<InterfaceAddress>> interface_addresses() {
  const auto list = all_addresses();
  if (!list) return std::unexpected(list.error());
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = list->get(); entry != nullptr; entry = entry->ifa_next) {
    const sockaddr* const address = entry->ifa_addr;
    if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || is_link_local(address_of(*address))) continue;
    found.push_back({.interface = entry->ifa_name,
                     .address = address_of(*address),
                     .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

Result<Address> local_address_towards(const Address& peer) {
  const SocketAddress to(peer, 0);
  const int probe = socket(to.generic.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return fail_errno("socket", errno);
  SocketAddress from;
  socklen_t length = sizeof from;
  const bool found =
      connect(probe, &to.generic, to.size()) == 0 && getsockname(probe, &from.generic, &length) == 0;
  const int error = errno;
  close(probe);
  if (!found && (error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL))
    return fail(Errc::not_found, "no way to " + host_string(peer));
  if (!found) return fail_errno(host_string(peer), error);
  Address address = from.address();
  address.port = 0;
  return address;
}

}  // namespace rdmc::port
