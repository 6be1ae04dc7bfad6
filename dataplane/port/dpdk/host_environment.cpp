#include "dataplane/port/dpdk/host_environment.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/port/dpdk/kernel_interface.hpp"

namespace rdmc::port::dpdk {
namespace {

namespace fs = std::filesystem;

/// The socket of a memif whose arguments name no socket.
constexpr const char* kMemifSocket = "/run/memif.sock";

std::uint64_t number_in(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

std::uint64_t effective_capabilities() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) return std::stoull(line.substr(7), nullptr, 16);
  }
  return 0;
}

void look_at_pci(std::string_view address, HostEnvironment& host) {
  const fs::path device = fs::path("/sys/bus/pci/devices") / address;
  std::error_code error;
  host.pci_there = fs::exists(device, error);
  const fs::path driver = fs::read_symlink(device / "driver", error);
  if (!error) host.pci_driver = driver.filename();
  const fs::path group = fs::read_symlink(device / "iommu_group", error);
  if (!error) host.vfio_group = "/dev/vfio/" + group.filename().string();
  host.vfio_group_accessible = access(host.vfio_group.c_str(), R_OK | W_OK) == 0;
}

/// True for a kernel driver that stays bound while DPDK uses the device.
bool shares_with_kernel(std::string_view driver) {
  return driver == "mlx5_core" || driver == "mlx4_core";
}

/// Checks the effective rights of this process, which also apply when a file is opened. They can differ from
/// the rights of the user who started the program (setcap).
bool may(const fs::path& path, int how) {
  return faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0;
}

/// Returns the path that this client has no right to use: the socket itself, or a directory above the
/// socket's own directory. Returns an empty string if no right is missing, even if the socket does not exist
/// yet.
std::string closed_at(const fs::path& socket) {
  std::error_code error;
  const fs::path directory = fs::absolute(socket, error).parent_path();
  for (fs::path parent = "/"; const fs::path& step : directory.parent_path().relative_path()) {
    if (!may(parent /= step, X_OK) && errno == EACCES) return parent;
  }
  const bool closed = may(directory, X_OK) && !may(socket, W_OK) && errno == EACCES;
  return closed ? socket.string() : "";
}

/// Checks the rights for the socket of a memif. An abstract socket, which is memif's default, is in no
/// directory.
void look_at_socket(const DpdkOptions& options, HostEnvironment& host) {
  const std::string_view named = options.device_argument("socket");
  const fs::path socket = named.empty() ? kMemifSocket : named;
  const bool in_directory = options.device_argument("socket-abstract") == "no";
  const bool client = options.device_argument("role") == "client";
  if (in_directory && client) host.socket_closed = closed_at(socket);
  const fs::path directory = socket.has_parent_path() ? socket.parent_path() : ".";
  // The driver also requires these rights of a client, although a client creates no socket.
  host.socket_directory_writable = !in_directory || may(directory, R_OK | W_OK | X_OK);
}

/// The remedy if there are too few file descriptors.
constexpr const char* kMoreDescriptors = "ulimit -n 65536";

Usability unusable(std::string reason, std::string remedy) {
  return {.usable = false, .reason = std::move(reason), .remedy = std::move(remedy)};
}

struct Capability {
  unsigned bit;
  const char* name;
};

/// Returns the wanted capabilities that are missing, in setcap's syntax. Returns an empty string if none is
/// missing.
std::string missing(std::span<const Capability> wanted, const HostEnvironment& host) {
  std::string names;
  for (const auto& [bit, name] : wanted) {
    if ((host.capabilities >> bit & 1) == 0) names += (names.empty() ? "" : ",") + std::string(name);
  }
  return names;
}

constexpr Capability kRaw{CAP_NET_RAW, "cap_net_raw"}, kAdmin{CAP_NET_ADMIN, "cap_net_admin"},
    kBpf{CAP_BPF, "cap_bpf"};

constexpr std::array kForPacket{kRaw};
constexpr std::array kForXdp{kAdmin, kRaw, kBpf};
constexpr std::array kForTap{kAdmin};

std::span<const Capability> capabilities_of(std::string_view driver) {
  if (driver == "net_af_packet") return kForPacket;
  if (driver == "net_af_xdp") return kForXdp;
  if (driver == "net_tap") return kForTap;
  return {};
}

Usability judge_pci(const DpdkOptions& options, const HostEnvironment& host) {
  const std::string name(options.device_name());
  if (!host.pci_there) return unusable("there is no PCI device " + name, "dpdk-devbind.py --status-dev net");
  if (shares_with_kernel(host.pci_driver)) return {.usable = true, .reason = name + " is there"};
  if (host.pci_driver != "vfio-pci" && host.pci_driver != "igb_uio" && host.pci_driver != "uio_pci_generic") {
    return unusable(name + (host.pci_driver.empty() ? " has no driver that DPDK can use"
                                                    : " belongs to the kernel's driver " + host.pci_driver),
                    "sudo modprobe vfio-pci && sudo dpdk-devbind.py --bind=vfio-pci " + name);
  }
  if (host.pci_driver == "vfio-pci" && !host.vfio_group.empty() && !host.vfio_group_accessible)
    return unusable("no access to " + host.vfio_group, "sudo chown $(id -u) " + host.vfio_group);
  return {.usable = true, .reason = name + " is there"};
}

Usability judge_virtual(const DpdkOptions& options, const HostEnvironment& host) {
  const std::string name(options.device_name());
  const std::string_view driver = options.driver_name();
  if (driver == "net_af_packet" || driver == "net_af_xdp") {
    const std::string interface(options.device_argument("iface"));
    if (!host.interface_unknown.empty())
      return unusable(name + ": " + host.interface_unknown, kMoreDescriptors);
    if (!host.interface_there)
      return unusable(name + ": there is no network interface '" + interface + "'", "ip -brief link");
    if (!host.interface_up) return unusable(interface + " is down", "sudo ip link set " + interface + " up");
  }
  if (driver == "net_tap" && !host.tun_there)
    return unusable("/dev/net/tun is not there", "sudo modprobe tun");
  if (driver == "net_memif" && !host.socket_closed.empty()) {
    const std::string_view socket = options.device_argument("socket");
    const bool is_directory = host.socket_closed != (socket.empty() ? kMemifSocket : socket);
    return unusable("no permission to open " + host.socket_closed,
                    (is_directory ? "sudo chmod a+x " : "sudo chown $(id -u) ") + host.socket_closed);
  }
  if (driver == "net_memif" && !host.socket_directory_writable) {
    const std::string_view socket = options.device_argument("socket");
    const std::string directory = fs::path(socket.empty() ? kMemifSocket : socket).parent_path();
    // The remedy must not change the owner of the directory, because the directory belongs to the server.
    if (options.device_argument("role") == "client")
      return unusable("no right to read and write " + directory, "sudo chmod a+rwxt " + directory);
    return unusable("no right to make " + directory + "'s socket",
                    "sudo install -d -o $(id -u) " + directory);
  }
  if (const std::string names = missing(capabilities_of(driver), host); !names.empty())
    return unusable(name + " takes privileges that this program has not",
                    "sudo setcap " + names + "+ep " + host.program);
  return {.usable = true, .reason = name + " can be made"};
}

}  // namespace

Result<void> room_for_descriptors() {
  // The number of descriptors that the check opens. Two memifs need about 20 descriptors; network cards need
  // more.
  constexpr std::size_t kTaken = 64;
  std::array<Descriptor, kTaken> taken;
  for (Descriptor& one : taken) {
    one = Descriptor(eventfd(0, EFD_CLOEXEC));
    if (!one)
      return fail_errno(
          "DPDK takes " + std::to_string(kTaken) + " further file descriptors (" + kMoreDescriptors + ")",
          errno);
  }
  return {};
}

HostEnvironment inspect_host(const DpdkOptions& options) {
  const std::string pages = "/sys/kernel/mm/hugepages/hugepages-";
  HostEnvironment host{.total_hugepages = number_in(pages + "2048kB/nr_hugepages"),
                       .free_hugepages = number_in(pages + "2048kB/free_hugepages"),
                       .free_giant_pages = number_in(pages + "1048576kB/free_hugepages"),
                       .capabilities = effective_capabilities()};
  if (const auto room = room_for_descriptors(); !room) host.no_descriptors = room.error().what;
  std::error_code error;
  host.program = fs::read_symlink("/proc/self/exe", error);
  if (!options.is_virtual) {
    look_at_pci(options.device_name(), host);
    return host;
  }
  const auto kernel = KernelInterfaces::open();
  const auto interface = kernel ? kernel->find(options.device_argument("iface"))
                                : Result<KernelInterface>(std::unexpected(kernel.error()));
  host.interface_there = interface.has_value();
  host.interface_up = interface && interface->up;
  if (!interface && interface.error().code != Errc::not_found)
    host.interface_unknown = interface.error().what;
  host.tun_there = access("/dev/net/tun", F_OK) == 0;
  look_at_socket(options, host);
  return host;
}

Usability judge(const DpdkOptions& options, const HostEnvironment& host) {
  if (!host.no_descriptors.empty()) return unusable(host.no_descriptors, kMoreDescriptors);
  if (options.hugepages && host.free_hugepages < kHugepagesWanted && host.free_giant_pages == 0) {
    const std::uint64_t pages = host.total_hugepages - host.free_hugepages + kHugepagesWanted;
    return unusable("it takes " + std::to_string(kHugepagesWanted) + " free hugepages of 2 MB, there are " +
                        std::to_string(host.free_hugepages) + " (huge=no does without, for a try)",
                    "sudo sysctl -w vm.nr_hugepages=" + std::to_string(pages));
  }
  return options.is_virtual ? judge_virtual(options, host) : judge_pci(options, host);
}

}  // namespace rdmc::port::dpdk
