// What a program's --fabric may name, and the choice: memory shared with the other processes of this host, an
// RDMA NIC, or the software endpoint on the best port there is. One place knows all providers, so that
// whoever needs a fabric knows none.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/port/driver.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/registry.hpp"

namespace rdmc::fabric {

/// The provider for RDMA NICs, as --fabric calls it.
inline constexpr std::string_view kVerbs = "verbs";
/// The provider for processes of one host.
inline constexpr std::string_view kShm = "shm";

/// kAutomatic, kShm, kVerbs, then the drivers of ports, best first.
std::vector<std::string> fabric_names();

struct OpenedFabric {
  std::unique_ptr<port::Port> port;  ///< none: the provider needs none
  std::unique_ptr<Fabric> fabric;
  SoftwareFabric* software = nullptr;  ///< the fabric, if it is ours
  std::string name;                    ///< "shm", "verbs", "dpdk", "udp"
  /// Why this one, and what it does without; for people, without newlines.
  std::string reason;
};

/// Opens the fabric named `wanted`; for port::kAutomatic the NIC that has `request.address`, otherwise the
/// best port. `software`: for a software endpoint; its entropy is everybody's. Errors: not_found (no such
/// fabric, no such device), unsupported (cannot be used here; says why and what would help), those of
/// port::Registry::open.
Result<OpenedFabric> open_fabric(std::string_view wanted, const port::PortRequest& request,
                                 const SoftwareFabricOptions& software);
/// The same with `drivers` for port::standard_drivers().
Result<OpenedFabric> open_fabric(port::Registry& drivers, std::string_view wanted,
                                 const port::PortRequest& request, const SoftwareFabricOptions& software);

/// The same, but port 0 is RoCE's 4791 where that is free, the only one that RDMA NICs send to, and else any.
/// At loopback addresses, which no NIC reaches, it is any.
Result<OpenedFabric> open_reachable_fabric(std::string_view wanted, port::PortRequest request,
                                           const SoftwareFabricOptions& software);

/// The software endpoint on `port`.
OpenedFabric on_port(std::unique_ptr<port::Port> port, const SoftwareFabricOptions& software);

/// Whether open_fabric(kShm, …) would do: what it says for itself, or its error.
Result<std::string> probe_shm(const SoftwareFabricOptions& software);
/// Whether open_fabric(kVerbs, …) would do.
Result<std::string> probe_verbs(const Address& address);
/// Whether this build has that provider at all.
bool is_built_with_verbs();

}  // namespace rdmc::fabric
