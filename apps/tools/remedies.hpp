// The one command that makes an unusable fabric usable. look_at_machine() examines the machine. The other
// functions are pure, so that every remedy can be tested. If the user named a DPDK device, the remedy is made
// by the driver of this device (dataplane/port/dpdk/host_environment.hpp), unless the device cannot be
// opened.
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
  bool has_proc = true;                   ///< True if /proc is mounted. A host reads its host id there.
  bool has_soft_roce = true;              ///< True if the running kernel has the module rdma_rxe.
  std::uint64_t most_descriptors = 0;     ///< The greatest limit of descriptors that this user can set
                                          ///< (ulimit -Hn).
  bool is_address_space_limited = false;  ///< True if the address space is limited (ulimit -v).
  /// True if this user can remove the limits of the address space and of locked memory (ulimit -Hv and -Hl
  /// are unlimited).
  bool may_lift_address_space = true, may_lift_locked_memory = true;
};

Machine look_at_machine();

/// Each of these functions returns the command for one fabric. None returns an empty string. `error` is the
/// error of the probe or of opening the fabric.
std::string remedy_for_shm(const Error& error, const Machine& machine);
/// `wanted` is the requested address of the NIC.
std::string remedy_for_verbs(const Error& error, const Address& wanted, const Machine& machine);
/// Returns the --device text for a device that can be made for a trial. Such a device needs no spare network
/// card.
std::string dpdk_device_for_a_try(const Machine& machine);
/// Returns the remedy for a DPDK device that the user named as `device`, if the device looked usable but
/// could not be opened.
std::string remedy_for_device(const Error& error, const std::string& device, const Machine& machine);
/// Returns the remedy for a request without a device, or with a device in the form of another driver.
std::string remedy_for_dpdk(const Machine& machine);
std::string remedy_for_udp(const Error& error, const Machine& machine);
/// Corrects the remedy of a driver, because a driver knows its device but not the limits of this user. If
/// there are too few descriptors, the remedy becomes the command that gives this process more descriptors on
/// this machine.
port::Usability with_right_limit(port::Usability usability, const Machine& machine);

}  // namespace rdmc::tools
