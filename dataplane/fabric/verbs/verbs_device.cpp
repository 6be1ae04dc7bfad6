#include "dataplane/fabric/verbs/verbs_device.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/fabric/verbs/verbs_terms.hpp"

namespace rdmc::fabric {
namespace {

/// A number that exceeds the size of every device's GID table.
constexpr std::size_t kMostGids = 1024;

std::optional<ibv_gid_entry> entry_of(ibv_context* context, const ibv_gid& wanted) {
  std::vector<ibv_gid_entry> entries(kMostGids);
  const auto count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  if (count <= 0) return std::nullopt;
  entries.resize(static_cast<std::size_t>(count));
  const auto found = std::ranges::find_if(entries, [&](const ibv_gid_entry& entry) {
    return entry.gid_type == IBV_GID_TYPE_ROCE_V2 && std::memcmp(entry.gid.raw, wanted.raw, 16) == 0;
  });
  return found == entries.end() ? std::nullopt : std::optional(*found);
}

Result<VerbsDevice> complete(VerbsHandle<ibv_context> context, const ibv_gid_entry& entry) {
  VerbsDevice device;
  device.name = ibv_get_device_name(context->device);
  device.port = static_cast<std::uint8_t>(entry.port_num);
  device.gid_index = static_cast<std::uint8_t>(entry.gid_index);
  device.context = std::move(context);
  ibv_port_attr port{};
  if (const int error = ibv_query_port(device.context.get(), device.port, &port); error != 0)
    return fail_errno("the RDMA device " + device.name, error);
  if (port.state != IBV_PORT_ACTIVE)
    return fail(Errc::unsupported, "port " + std::to_string(device.port) + " of the RDMA device " +
                                       device.name + " is not active: " + ibv_port_state_str(port.state));
  device.path_mtu = bytes_of(port.active_mtu);
  device.largest_message = port.max_msg_sz;
  if (const int error = ibv_query_device(device.context.get(), &device.limits); error != 0)
    return fail_errno("the RDMA device " + device.name, error);
  device.domain.reset(ibv_alloc_pd(device.context.get()));
  if (!device.domain) return fail_errno("a protection domain of " + device.name, errno);
  return device;
}

}  // namespace

Result<VerbsDevice> VerbsDevice::open(const Address& address) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list(ibv_get_device_list(&count),
                                                                           &ibv_free_device_list);
  if (!list) {
    if (errno == ENOSYS) return fail(Errc::unsupported, "this kernel has no RDMA");
    return fail_errno("the list of RDMA devices", errno);
  }
  const ibv_gid wanted = gid_of(address);
  // The error of a device that could not be opened. This device may be the wanted one.
  std::optional<Error> refused;
  for (ibv_device* const candidate : std::span(list.get(), static_cast<std::size_t>(count))) {
    VerbsHandle<ibv_context> context(ibv_open_device(candidate));
    if (!context) {
      refused = fail_errno("the RDMA device " + std::string(ibv_get_device_name(candidate)), errno).error();
      continue;
    }
    if (const auto entry = entry_of(context.get(), wanted)) return complete(std::move(context), *entry);
  }
  if (refused) return std::unexpected(*refused);
  if (count == 0) return fail(Errc::not_found, "this host has no RDMA device");
  return fail(Errc::not_found, "no RDMA device has the RoCE v2 address " + host_string(address));
}

}  // namespace rdmc::fabric
