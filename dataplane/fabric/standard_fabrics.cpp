#include "dataplane/fabric/standard_fabrics.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/fabric/host_identity.hpp"
#include "dataplane/fabric/per_pair_fabric.hpp"
#include "dataplane/port/standard_drivers.hpp"
#include "dataplane/roce/headers.hpp"
#if RDMC_VERBS
#include "dataplane/fabric/verbs/verbs_fabric.hpp"
#endif

namespace rdmc::fabric {
namespace {

Result<OpenedFabric> open_verbs([[maybe_unused]] const port::PortRequest& request,
                                [[maybe_unused]] const SoftwareFabricOptions& software) {
  if (software.encrypt) return fail(Errc::unsupported, "RDMA NICs send packets as they are, not encrypted");
#if RDMC_VERBS
  auto fabric = VerbsFabric::open(request.address, software.entropy, port::traffic_class_of(request.dscp));
  if (!fabric) return std::unexpected(fabric.error());
  OpenedFabric opened{.name = std::string(kVerbs)};
  opened.reason = "the RDMA device " + (*fabric)->device() + " has " + host_string(request.address);
  opened.fabric = std::move(*fabric);
  return opened;
#else
  return fail(Errc::unsupported, "built without libibverbs");
#endif
}

ShmFabricOptions shm_options(const SoftwareFabricOptions& software) {
  return {.entropy = software.entropy, .host_id = software.host_id};
}

Result<OpenedFabric> open_shm(const SoftwareFabricOptions& software) {
  auto fabric = ShmFabric::open(shm_options(software));
  if (!fabric) return std::unexpected(fabric.error());
  OpenedFabric opened{.name = std::string(kShm)};
  opened.reason = "memory shared with the other processes of this host";
  opened.fabric = std::move(*fabric);
  return opened;
}

/// True for Soft-RoCE, which is slower than the software fabric.
bool is_emulated([[maybe_unused]] const Fabric& fabric) {
#if RDMC_VERBS
  return static_cast<const VerbsFabric&>(fabric).is_emulated();
#else
  return false;
#endif
}

Result<OpenedFabric> open_software(port::Registry& drivers, std::string_view wanted,
                                   const port::PortRequest& request, const SoftwareFabricOptions& software) {
  auto opened = drivers.open(wanted, request);
  if (!opened) return std::unexpected(opened.error());
  OpenedFabric result = on_port(std::move(opened->port), software);
  result.reason = std::move(opened->reason);
  return result;
}

/// Opens the NIC or the port that `wanted` names. For port::kAutomatic, opens the best one.
Result<OpenedFabric> open_remote(port::Registry& drivers, std::string_view wanted,
                                 const port::PortRequest& request, const SoftwareFabricOptions& software) {
  const bool names_port = wanted != kVerbs && (wanted != port::kAutomatic || !request.device.empty());
  if (names_port) return open_software(drivers, wanted, request, software);
  auto verbs = open_verbs(request, software);
  if (verbs && (wanted == kVerbs || !is_emulated(*verbs->fabric))) return verbs;
  const std::string why = verbs ? "verbs passed over: " + verbs->reason + ", but it is emulated by the kernel"
                                : "verbs cannot be used: " + verbs.error().what;
  if (wanted == kVerbs) return fail(verbs.error().code, why);
  auto opened = open_software(drivers, wanted, request, software);
  if (opened) opened->reason = why + "; " + opened->reason;
  return opened;
}

/// Adds shared memory for members on this host. The given fabric is then used only for members on other
/// hosts. Returns `opened` without shared memory if the host id is not known or shared memory cannot be
/// opened.
OpenedFabric beside_memory(OpenedFabric opened, const SoftwareFabricOptions& software) {
  if (software.host_id == 0) return opened;
  auto both = PerPairFabric::open(shm_options(software), opened.fabric);
  if (!both) {
    opened.reason += "; no shared memory for members on this host: " + both.error().what;
    return opened;
  }
  opened.fabric = std::move(*both);
  opened.reason = "shared memory with members on this host, else " + opened.name + ": " + opened.reason;
  opened.name = std::string(kShm) + "+" + opened.name;
  return opened;
}

}  // namespace

std::vector<std::string> fabric_names() {
  std::vector<std::string> names = port::standard_drivers().names();
  names.insert(names.begin() + 1, {std::string(kShm), std::string(kVerbs)});
  return names;
}

Result<std::string> probe_shm(const SoftwareFabricOptions& software) {
  // The host id is also unknown if no descriptor is free to read the boot id. In that case, this error is
  // returned.
  if (software.host_id == 0 && !Descriptor(::open(kBootId, O_RDONLY | O_CLOEXEC)))
    return fail_errno(kBootId, errno);
  const auto opened = open_shm(software);
  if (!opened) return std::unexpected(opened.error());
  return opened->reason;
}

Result<std::string> probe_verbs(const Address& address) {
  const auto opened = open_verbs({.address = address}, {.entropy = [] { return 0U; }});
  if (!opened) return std::unexpected(opened.error());
  return opened->reason;
}

bool is_built_with_verbs() {
  return RDMC_VERBS;
}

OpenedFabric on_port(std::unique_ptr<port::Port> port, const SoftwareFabricOptions& software) {
  auto fabric = std::make_unique<SoftwareFabric>(*port, software);
  OpenedFabric opened{.port = std::move(port), .software = fabric.get()};
  opened.fabric = std::move(fabric);
  opened.name = opened.port->info().driver;
  return opened;
}

Result<OpenedFabric> open_fabric(std::string_view wanted, const port::PortRequest& request,
                                 const SoftwareFabricOptions& software) {
  const std::vector<std::string> names = fabric_names();
  if (std::ranges::find(names, wanted) == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    return fail(Errc::not_found, "'" + std::string(wanted) + "' is unknown; there are " + known);
  }
  auto drivers = port::standard_drivers();
  return open_fabric(drivers, wanted, request, software);
}

Result<OpenedFabric> open_fabric(port::Registry& drivers, std::string_view wanted,
                                 const port::PortRequest& request, const SoftwareFabricOptions& software) {
  if (request.dscp > port::kMostDscp) return port::not_a_dscp(request.dscp);
  if (wanted == kShm) return open_shm(software);
  if (wanted != port::kAutomatic) return open_remote(drivers, wanted, request, software);
  auto opened = open_remote(drivers, wanted, request, software);
  return opened ? beside_memory(std::move(*opened), software) : std::move(opened);
}

Result<OpenedFabric> open_reachable_fabric(std::string_view wanted, port::PortRequest request,
                                           const SoftwareFabricOptions& software) {
  if (request.address.port != 0 || is_loopback(request.address))
    return open_fabric(wanted, request, software);
  request.address.port = kRocePort;
  auto opened = open_fabric(wanted, request, software);
  if (opened || opened.error().code != Errc::already_exists) return opened;
  request.address.port = 0;  // The connection blob then carries the port number that is used.
  auto other = open_fabric(wanted, request, software);
  if (other) other->reason += "; on a UDP port of its own: " + opened.error().what;
  return other;
}

}  // namespace rdmc::fabric
