// The fabrics that a program's --fabric option can name, and the choice between them: memory shared with the
// other processes of this host, an RDMA NIC, or the software fabric on the best port. Only this file knows
// all providers. Its users need not know them.
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

/// The name of the provider for RDMA NICs.
inline constexpr std::string_view kVerbs = "verbs";
/// The name of the provider for processes of one host.
inline constexpr std::string_view kShm = "shm";

/// Returns kAutomatic, kShm, kVerbs, and then the names of the packet drivers, best first.
std::vector<std::string> fabric_names();

struct OpenedFabric {
  std::unique_ptr<port::Port> port;  ///< Null if the provider needs no port.
  std::unique_ptr<Fabric> fabric;
  SoftwareFabric* software = nullptr;  ///< The fabric, if it is a software fabric; otherwise null.
  std::string name;                    ///< For example "shm", "verbs", "dpdk" or "udp".
  /// A text for people, without newlines: why this fabric was chosen, and which features are missing.
  std::string reason;
};

/// Opens the fabric named `wanted`. For port::kAutomatic, opens the NIC that has `request.address`, or the
/// best port if there is no such NIC, and adds shared memory for members on this host. `software` has the
/// options of a software fabric. Every provider uses the entropy in `software`, and shm also uses the host
/// id. Errors: not_found (no such fabric or device), unsupported (the fabric cannot be used here; the text
/// gives the reason and a remedy), and the errors of port::Registry::open.
Result<OpenedFabric> open_fabric(std::string_view wanted, const port::PortRequest& request,
                                 const SoftwareFabricOptions& software);
/// Does the same as the function above, but with `drivers` in place of port::standard_drivers().
Result<OpenedFabric> open_fabric(port::Registry& drivers, std::string_view wanted,
                                 const port::PortRequest& request, const SoftwareFabricOptions& software);

/// Does the same as open_fabric(). In addition, if the request has port number 0, the fabric uses RoCE's port
/// number 4791 if that number is free, because RDMA NICs send to no other port number. If 4791 is not free,
/// the fabric uses any free port number. For a loopback address, which no NIC can reach, port number 0 still
/// means any free number.
Result<OpenedFabric> open_reachable_fabric(std::string_view wanted, port::PortRequest request,
                                           const SoftwareFabricOptions& software);

/// Returns a software fabric on `port`.
OpenedFabric on_port(std::unique_ptr<port::Port> port, const SoftwareFabricOptions& software);

/// Tries open_fabric(kShm, …). Returns the reason text of the opened fabric, or the error.
Result<std::string> probe_shm(const SoftwareFabricOptions& software);
/// Tries open_fabric(kVerbs, …), and returns the same as probe_shm().
Result<std::string> probe_verbs(const Address& address);
/// True if this build contains the verbs provider.
bool is_built_with_verbs();

}  // namespace rdmc::fabric
