// The one command that makes a fabric usable which is not. Looking at the machine (look_at_machine) is apart
// from judging (the others), which is pure, so that every remedy can be tested. A DPDK device that was named
// is its driver's own to judge (dataplane/port/dpdk/host_environment.hpp), until opening it fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/port/driver.hpp"
#include "dataplane/port/network_interface.hpp"
#include "dataplane/port/rdma_devices.hpp"

namespace rdmc::tools {

struct Machine {
  std::vector<port::InterfaceAddress> addresses;
  std::vector<port::RdmaGid> rdma_gids;
  bool built_with_verbs = true;
  bool has_proc = true;                   ///< /proc, by which a host knows itself
  bool has_soft_roce = true;              ///< the running kernel comes with rdma_rxe
  std::uint64_t most_descriptors = 0;     ///< that this user can raise the limit to (ulimit -Hn)
  bool is_address_space_limited = false;  ///< (ulimit -v)
  /// This user can take those limits away for itself (ulimit -Hv and -Hl are unlimited).
  bool may_lift_address_space = true, may_lift_locked_memory = true;
};

Machine look_at_machine();

/// None of these is ever empty. `error`: of the probe, or of opening.
std::string remedy_for_shm(const Error& error, const Machine& machine);
/// `wanted`: the address that the NIC was to have.
std::string remedy_for_verbs(const Error& error, const Address& wanted, const Machine& machine);
/// The words for a device that can be made for a try, without a network card to spare.
std::string dpdk_device_for_a_try(const Machine& machine);
/// Of a DPDK device that was named in these words, looked usable, and could not be opened.
std::string remedy_for_device(const Error& error, const std::string& device, const Machine& machine);
/// Where no device was named, or not in its words.
std::string remedy_for_dpdk(const Machine& machine);
std::string remedy_for_udp(const Error& error, const Machine& machine);
/// What a driver told, which knows its device but not the limits of this user: where descriptors are short,
/// the remedy is the one that works on this machine.
port::Usability with_right_limit(port::Usability usability, const Machine& machine);

}  // namespace rdmc::tools
