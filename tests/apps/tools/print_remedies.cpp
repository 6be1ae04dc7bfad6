// Prints every remedy that rdmc_doctor can print, each on its own line. A test runs all of them. To find the
// remedies, the program calls each function with all combinations of its inputs. The simulated machine has
// the network interface INTERFACE with the address ADDRESS. Every path in a remedy is in the directory DIR.
//
// print_remedies INTERFACE ADDRESS DIR
#include <cerrno>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "apps/tools/remedies.hpp"
#include "dataplane/port/dpdk/host_environment.hpp"
#include "dataplane/port/dpdk/options.hpp"
#include "dataplane/port/standard_drivers.hpp"

using namespace rdmc;
using namespace rdmc::tools;

namespace {

constexpr bool kBoth[] = {false, true};

std::vector<Error> errors() {
  std::vector<Error> all;
  for (const int number : {EMFILE, ENFILE, EAFNOSUPPORT, ENOSYS, ENOMEM, EACCES})
    all.push_back(fail_errno("it", number).error());
  for (const Errc code : {Errc::resource_limit, Errc::permission_denied, Errc::already_exists,
                          Errc::not_found, Errc::unsupported, Errc::io_error})
    all.push_back({code, "it does not work"});
  return all;
}

std::vector<Machine> machines(const port::InterfaceAddress& interface) {
  std::vector<Machine> all;
  for (unsigned choices = 0; choices < 1U << 8; ++choices) {
    const auto chosen = [choices](unsigned bit) { return (choices >> bit & 1) != 0; };
    Machine machine{.addresses = {}, .rdma_gids = {}};
    if (chosen(0)) machine.addresses.push_back(interface);
    if (chosen(1)) machine.rdma_gids.push_back({"rxe0", 1, 1, interface.address});
    machine.built_with_verbs = chosen(2);
    machine.has_proc = chosen(3);
    machine.has_soft_roce = chosen(4);
    machine.most_descriptors = chosen(5) ? 1'000'000 : 1'000;
    machine.is_address_space_limited = chosen(6);
    machine.may_lift_address_space = machine.may_lift_locked_memory = chosen(7);
    all.push_back(std::move(machine));
  }
  return all;
}

void ask_the_doctor(const port::InterfaceAddress& interface, std::set<std::string>& remedies) {
  const Address elsewhere = Address::ipv4(192, 0, 2, 77, 0);
  for (const Machine& machine : machines(interface)) {
    for (const Error& error : errors()) {
      remedies.insert(remedy_for_shm(error, machine));
      for (const Address& wanted : {interface.address, elsewhere})
        remedies.insert(remedy_for_verbs(error, wanted, machine));
      for (const char* const device :
           {"vdev=net_memif0,role=server address=192.0.2.1/24", "pci=0000:03:00.0 address=192.0.2.1/24",
            "vdev=net_memif0,role=server address=192.0.2.1/24 huge=no"})
        remedies.insert(remedy_for_device(error, device, machine));
      remedies.insert(remedy_for_udp(error, machine));
      remedies.insert(with_right_limit({.reason = error.what, .remedy = "ulimit -n 65536"}, machine).remedy);
    }
    remedies.insert(remedy_for_dpdk(machine));
  }
}

void ask_dpdk(const std::string& interface, const std::string& directory, std::set<std::string>& remedies) {
  using namespace port::dpdk;
  const std::string tail = " address=192.0.2.1/24";
  const std::string socket = "socket-abstract=no,socket=" + directory + "/memif/memif.sock";
  for (const std::string& device :
       {std::string("pci=0000:03:00.0"), "vdev=net_af_packet0,iface=" + interface,
        "vdev=net_af_xdp0,iface=" + interface, std::string("vdev=net_tap0"),
        "vdev=net_memif0,role=client," + socket, "vdev=net_memif0,role=server," + socket}) {
    const auto options = parse_options(device + tail);
    if (!options) continue;
    for (const std::uint64_t free_hugepages : {0U, 1000U})
      for (const char* const no_descriptors : {"", "none"})
        for (const bool there : kBoth)
          for (const bool up : kBoth)
            for (const bool privileged : kBoth)
              for (const std::string& closed : {std::string(), directory, directory + "/memif/memif.sock"}) {
                HostEnvironment host{};
                host.no_descriptors = no_descriptors;
                host.free_hugepages = free_hugepages;
                host.capabilities = privileged ? ~std::uint64_t{0} : 0;
                host.program = directory + "/program";
                host.interface_there = host.tun_there = host.pci_there = there;
                host.interface_up = host.vfio_group_accessible = host.socket_directory_writable = up;
                host.socket_closed = closed;
                host.pci_driver = privileged ? "vfio-pci" : "e1000";
                host.vfio_group = directory + "/group";
                remedies.insert(judge(*options, host).remedy);
                host.interface_unknown = "it does not tell";
                remedies.insert(judge(*options, host).remedy);
              }
  }
}

/// Adds the remedies for packet drivers. This program has no module directory, so it gets the remedies of a
/// build without modules.
void ask_drivers(std::set<std::string>& remedies) {
  const port::Registry registry = port::standard_drivers();
  for (const auto& driver : registry.drivers())
    remedies.insert(driver->probe({.address = {}, .device = "vdev=net_memif0 address=192.0.2.1/24"}).remedy);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 1;
  const auto address = parse_address(arguments[2], 0);
  if (!address) return 1;
  std::set<std::string> remedies;
  ask_the_doctor({arguments[1], *address, false}, remedies);
  ask_dpdk(arguments[1], arguments[3], remedies);
  ask_drivers(remedies);
  remedies.erase("");  // A usable fabric gives an empty remedy.
  for (const std::string& remedy : remedies) std::puts(remedy.c_str());
  return 0;
}
