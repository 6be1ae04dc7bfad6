#include "apps/tools/remedies.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "dataplane/fabric/host_identity.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::tools {
namespace {

/// An address that is reserved for documentation (RFC 5737). Its use disturbs no other host.
constexpr const char* kSpareAddress = "192.0.2.1";

/// The command that installs the distribution's kernel, which has all modules.
constexpr const char* kWholeKernel = "sudo apt-get install linux-image-amd64 && sudo reboot";

bool same_ip(const Address& a, const Address& b) {
  return a.ipv6 == b.ipv6 && a.bytes == b.bytes;
}

/// Returns the interface that has the address `wanted`. If there is none, returns the first interface that is
/// not a loopback.
std::optional<port::InterfaceAddress> interface_for(const Address& wanted, const Machine& machine) {
  std::optional<port::InterfaceAddress> found;
  for (const auto& one : machine.addresses) {
    if (one.loopback) continue;
    if (same_ip(one.address, wanted)) return one;
    if (!found) found = one;
  }
  return found;
}

std::string with_address(const std::string& address) {
  return "rdmc_doctor --address " + address;
}

/// Returns the command that makes an RDMA device of any network card. Such a device is slower than rdmc's own
/// software endpoint, but the verbs fabric can use it.
std::string make_soft_roce(const Address& wanted, const Machine& machine) {
  if (!machine.has_soft_roce) return kWholeKernel;
  const auto on = interface_for(wanted, machine);
  const std::string interface = on ? on->interface : "rdmc0";
  const std::string address = on ? host_string(on->address) : kSpareAddress;
  const std::string card = on ? ""
                              : "sudo ip link add rdmc0 type dummy && sudo ip address add " + address +
                                    "/24 dev rdmc0 && sudo ip link set rdmc0 up && ";
  return card + "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev " + interface + " && " +
         with_address(address);
}

/// True if the running kernel has this module, either loadable or built in.
bool kernel_has(const std::string& module) {
  utsname running{};
  if (uname(&running) != 0) return false;
  const std::filesystem::path modules = std::filesystem::path("/lib/modules") / running.release;
  for (const char* const list : {"modules.dep", "modules.builtin"}) {
    std::ifstream file(modules / list);
    for (std::string line; std::getline(file, line);)
      if (line.substr(0, line.find(':')).find("/" + module + ".ko") != std::string::npos) return true;
  }
  return std::filesystem::exists("/sys/module/" + module);
}

/// True if the error has this errno value. fail_errno() puts the text of the errno at the end of the error's
/// text.
bool says(const Error& error, int errno_value) {
  return error.what.ends_with(": " + std::generic_category().message(errno_value));
}

/// If the cause of the error is a lack of descriptors, returns the command that lets this process or the
/// machine open more of them.
std::optional<std::string> more_descriptors(const Error& error, const Machine& machine) {
  constexpr std::uint64_t kDescriptors = 65'536;
  if (says(error, EMFILE)) {
    const std::string wanted = std::to_string(kDescriptors);
    return machine.most_descriptors >= kDescriptors ? "ulimit -n " + wanted
                                                    : "sudo prlimit --pid $$ --nofile=" + wanted;
  }
  // The command computes the new limit itself, because this process cannot open a file to read the old limit.
  if (says(error, ENFILE)) return "sudo sh -c 'sysctl -w fs.file-max=$((2 * $(cat /proc/sys/fs/file-max)))'";
  return std::nullopt;
}

std::string more_room(const Error& error, const Machine& machine) {
  if (auto remedy = more_descriptors(error, machine)) return *std::move(remedy);
  if (!machine.is_address_space_limited) return "sudo sysctl -w vm.overcommit_memory=1";
  return machine.may_lift_address_space ? "ulimit -v unlimited" : "sudo prlimit --pid $$ --as=unlimited";
}

std::string more_locked_memory(const Machine& machine) {
  return machine.may_lift_locked_memory ? "ulimit -l unlimited" : "sudo prlimit --pid $$ --memlock=unlimited";
}

}  // namespace

Machine look_at_machine() {
  Machine machine{.addresses = port::interface_addresses().value_or(std::vector<port::InterfaceAddress>{}),
                  .rdma_gids = port::rdma_gids(),
                  .built_with_verbs = fabric::is_built_with_verbs(),
                  .has_proc = access(fabric::kBootId, R_OK) == 0,
                  .has_soft_roce = kernel_has("rdma_rxe")};
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) machine.most_descriptors = limit.rlim_max;
  if (getrlimit(RLIMIT_AS, &limit) == 0) {
    machine.is_address_space_limited = limit.rlim_cur != RLIM_INFINITY;
    machine.may_lift_address_space = limit.rlim_max == RLIM_INFINITY;
  }
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    machine.may_lift_locked_memory = limit.rlim_max == RLIM_INFINITY;
  return machine;
}

std::string remedy_for_shm(const Error& error, const Machine& machine) {
  if (auto remedy = more_descriptors(error, machine)) return *std::move(remedy);
  if (!machine.has_proc) return "sudo mount -t proc proc /proc";
  if (says(error, EAFNOSUPPORT)) return "sudo modprobe unix";
  switch (error.code) {
    case Errc::resource_limit: return more_room(error, machine);
    case Errc::permission_denied: return "sudo rdmc_doctor";
    // The kernel has no memfd_create or no seals, or it lacks another feature that needs another kernel.
    default: return kWholeKernel;
  }
}

std::string remedy_for_verbs(const Error& error, const Address& wanted, const Machine& machine) {
  if (!machine.built_with_verbs)
    return "sudo apt-get install libibverbs-dev ibverbs-providers && tools/build build";
  if (auto remedy = more_descriptors(error, machine)) return *std::move(remedy);
  switch (error.code) {
    case Errc::resource_limit: return more_locked_memory(machine);
    case Errc::permission_denied: return "sudo chmod a+rw /dev/infiniband/uverbs*";
    default: break;
  }
  const auto& gids = machine.rdma_gids;
  if (gids.empty()) return make_soft_roce(wanted, machine);
  const auto its =
      std::ranges::find_if(gids, [&](const port::RdmaGid& gid) { return same_ip(gid.address, wanted); });
  if (its == gids.end()) return with_address(host_string(gids.front().address));
  // The device exists, but it does not work.
  const auto on = interface_for(wanted, machine);
  return on ? "sudo ip link set " + on->interface + " up" : "sudo rdma link show " + its->device;
}

std::string dpdk_device_for_a_try(const Machine& machine) {
  const auto on = interface_for({}, machine);
  const std::string device = on ? "net_af_packet0,iface=" + on->interface : "net_memif0,role=server";
  return "vdev=" + device + " address=" + kSpareAddress + "/24 huge=no";
}

std::string remedy_for_dpdk(const Machine& machine) {
  return "sudo rdmc_doctor --device '" + dpdk_device_for_a_try(machine) + "'";
}

std::string remedy_for_device(const Error& error, const std::string& device, const Machine& machine) {
  const auto again = [](const std::string& words) { return "rdmc_doctor --device '" + words + "'"; };
  if (auto remedy = more_descriptors(error, machine)) return *std::move(remedy);
  const bool has_ordinary_pages = device.find("huge=no") != std::string::npos;
  switch (error.code) {
    case Errc::permission_denied: return "sudo " + again(device);
    case Errc::resource_limit:
      return has_ordinary_pages ? more_room(error, machine) : again(device + " huge=no");
    case Errc::already_exists:  // Another process uses the device.
      return device.starts_with("pci=") ? "sudo fuser -v /dev/vfio/*" : "sudo ss -xlp";
    // DPDK does not know the device, or the device has no peer at its other end. The remedy names a device
    // that needs neither of these.
    default: return remedy_for_dpdk(machine);
  }
}

std::string remedy_for_udp(const Error& error, const Machine& machine) {
  if (error.code == Errc::resource_limit) return more_room(error, machine);
  const auto on = interface_for({}, machine);
  return with_address(on ? host_string(on->address) : "127.0.0.1");
}

port::Usability with_right_limit(port::Usability usability, const Machine& machine) {
  if (auto remedy = more_descriptors({Errc::resource_limit, usability.reason}, machine))
    usability.remedy = *std::move(remedy);
  return usability;
}

}  // namespace rdmc::tools
