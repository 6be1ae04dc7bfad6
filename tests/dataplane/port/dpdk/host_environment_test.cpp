#include "dataplane/port/dpdk/host_environment.hpp"

#include <linux/capability.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dataplane/port/dpdk/kernel_interface.hpp"
#include "tests/dataplane/port/dpdk/other_user.hpp"
#include "tests/dataplane/port/most_descriptors.hpp"

BOOST_AUTO_TEST_SUITE(host_environment_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::dpdk;
using rdmc::port::dpdk::testing::OtherUser;
using rdmc::port::test::MostDescriptors;

namespace {

HostEnvironment everything() {
  return {.total_hugepages = 512,
          .free_hugepages = 512,
          .capabilities = ~std::uint64_t{0},
          .program = "/opt/rdmc_perf",
          .interface_there = true,
          .interface_up = true,
          .tun_there = true,
          .socket_directory_writable = true,
          .pci_there = true,
          .pci_driver = "vfio-pci",
          .vfio_group = "/dev/vfio/7",
          .vfio_group_accessible = true};
}

Usability judged(const std::string& device, const HostEnvironment& host) {
  return judge(*parse_options(device), host);
}

void check_remedy(const std::string& device, const HostEnvironment& host, const std::string& remedy) {
  const Usability usability = judged(device, host);
  BOOST_TEST(!usability.usable);
  BOOST_TEST(!usability.reason.empty());
  BOOST_TEST(usability.remedy == remedy);
}

}  // namespace

BOOST_AUTO_TEST_CASE(where_everything_is_there_every_device_can_be_used) {
  for (const char* const device : {"vdev=net_memif0,socket=/tmp/s", "vdev=net_af_packet0,iface=eth0",
                                   "vdev=net_af_xdp0,iface=eth0", "vdev=net_tap0", "pci=0000:3b:00.0"})
    BOOST_TEST(judged(device, everything()).usable, device);
}

BOOST_AUTO_TEST_CASE(missing_hugepages_are_added_to_those_in_use_or_done_without) {
  HostEnvironment host = everything();
  host.total_hugepages = 100;
  host.free_hugepages = 10;
  check_remedy("vdev=net_memif0", host, "sudo sysctl -w vm.nr_hugepages=154");
  BOOST_TEST(judged("vdev=net_memif0 huge=no", host).usable);
  host.free_giant_pages = 1;
  BOOST_TEST(judged("vdev=net_memif0", host).usable);
}

BOOST_AUTO_TEST_CASE(an_interface_that_is_down_is_named_with_the_command_that_brings_it_up) {
  HostEnvironment host = everything();
  host.interface_up = false;
  check_remedy("vdev=net_af_packet0,iface=eth7", host, "sudo ip link set eth7 up");
  check_remedy("vdev=net_af_xdp0,iface=eth7", host, "sudo ip link set eth7 up");
  // In the arguments of a TAP, iface= names the interface that will be created.
  BOOST_TEST(judged("vdev=net_tap0,iface=eth7", host).usable);
  host.interface_there = false;
  check_remedy("vdev=net_af_packet0,iface=eth7", host, "ip -brief link");
}

BOOST_AUTO_TEST_CASE(an_interface_that_cannot_be_asked_for_is_neither_missing_nor_without_a_link) {
  const auto kernel = KernelInterfaces::open();
  BOOST_REQUIRE(kernel.has_value());
  const auto code = [](const auto& result) { return result ? std::optional<Errc>() : result.error().code; };
  BOOST_TEST((code(kernel->find("nosuchlink")) == Errc::not_found));
  HostEnvironment host;
  {
    const MostDescriptors none(0);
    BOOST_TEST((code(KernelInterfaces::open()) == Errc::resource_limit));
    const auto loopback = kernel->find("lo");
    BOOST_TEST((loopback && loopback->linked));
    host = inspect_host(*parse_options("vdev=net_af_packet0,iface=lo"));
  }
  const Usability usability = judged("vdev=net_af_packet0,iface=lo huge=no", host);
  BOOST_TEST(!usability.usable);
  BOOST_TEST(usability.reason.find("Too many open files") != std::string::npos, usability.reason);
  BOOST_TEST(usability.remedy == "ulimit -n 65536");
}

// If a process has too few descriptors, EAL panics.
BOOST_AUTO_TEST_CASE(a_device_takes_more_descriptors_than_a_process_may_have_left) {
  BOOST_TEST(inspect_host(*parse_options("vdev=net_tap0")).no_descriptors.empty());
  BOOST_TEST(room_for_descriptors().has_value());
  HostEnvironment host;
  {
    const MostDescriptors few(32);
    const auto room = room_for_descriptors();
    BOOST_TEST((!room && room.error().code == Errc::resource_limit));
    BOOST_TEST((!room && room.error().what.find("ulimit -n") != std::string::npos));
    host = inspect_host(*parse_options("vdev=net_tap0"));
  }
  check_remedy("vdev=net_tap0", host, "ulimit -n 65536");
  check_remedy("pci=0000:3b:00.0", host, "ulimit -n 65536");
  host = everything();
  host.interface_unknown = "Too many open files";
  check_remedy("vdev=net_af_packet0,iface=lo", host, "ulimit -n 65536");
}

BOOST_AUTO_TEST_CASE(missing_privileges_are_named_as_setcap_takes_them) {
  HostEnvironment host = everything();
  host.capabilities = 0;
  check_remedy("vdev=net_af_packet0,iface=e", host, "sudo setcap cap_net_raw+ep /opt/rdmc_perf");
  check_remedy("vdev=net_tap0", host, "sudo setcap cap_net_admin+ep /opt/rdmc_perf");
  check_remedy("vdev=net_af_xdp0,iface=e", host,
               "sudo setcap cap_net_admin,cap_net_raw,cap_bpf+ep /opt/rdmc_perf");
  host.capabilities = std::uint64_t{1} << CAP_NET_ADMIN;
  check_remedy("vdev=net_af_xdp0,iface=e", host, "sudo setcap cap_net_raw,cap_bpf+ep /opt/rdmc_perf");
  BOOST_TEST(judged("vdev=net_tap0", host).usable);
  BOOST_TEST(judged("vdev=net_memif0", host).usable);
}

BOOST_AUTO_TEST_CASE(a_network_card_that_dpdk_cannot_have_is_named_with_the_command_that_gives_it) {
  const std::string card = "pci=0000:3b:00.0";
  const std::string bind = "sudo modprobe vfio-pci && sudo dpdk-devbind.py --bind=vfio-pci 0000:3b:00.0";
  HostEnvironment host = everything();
  host.vfio_group_accessible = false;
  check_remedy(card, host, "sudo chown $(id -u) /dev/vfio/7");
  host.pci_driver = "ixgbe";
  check_remedy(card, host, bind);
  host.pci_driver = "";
  check_remedy(card, host, bind);
  host.pci_driver = "mlx5_core";  // This driver cooperates with the kernel's driver.
  BOOST_TEST(judged(card, host).usable);
  host.pci_there = false;
  check_remedy(card, host, "dpdk-devbind.py --status-dev net");
}

BOOST_AUTO_TEST_CASE(a_directory_without_rights_and_a_missing_tun_device_have_their_commands) {
  HostEnvironment host = everything();
  host.socket_directory_writable = false;
  check_remedy("vdev=net_memif0,socket=/run/x/s,socket-abstract=no", host,
               "sudo install -d -o $(id -u) /run/x");
  host = everything();
  // The client's arguments name no socket, so it uses the default socket.
  host.socket_closed = "/run/memif.sock";
  check_remedy("vdev=net_memif0,role=client,socket-abstract=no", host, "sudo chown $(id -u) /run/memif.sock");
  host.socket_closed = "/run/x";  // This directory is above the directory of the socket.
  check_remedy("vdev=net_memif0,role=client,socket=/run/x/y/s,socket-abstract=no", host,
               "sudo chmod a+x /run/x");
  host.tun_there = false;
  check_remedy("vdev=net_tap0", host, "sudo modprobe tun");
}

// A memif client creates no socket, but its driver needs the rights to create one.
BOOST_AUTO_TEST_CASE(a_memif_client_is_told_whether_the_socket_or_a_directory_is_closed_to_it) {
  namespace fs = std::filesystem;
  std::string name = fs::temp_directory_path() / "rdmc_surroundings-XXXXXX";
  const fs::path directory = mkdtemp(name.data()), socket = directory / "s";
  const auto end = [&](const std::string& role) {
    return "vdev=net_memif0,role=" + role + ",socket-abstract=no,socket=" + socket.string() + " huge=no";
  };
  const auto host = [&](const std::string& role) {
    const OtherUser other_user;
    return inspect_host(*parse_options(end(role)));
  };
  const auto as = [](const fs::path& path, unsigned mode) { fs::permissions(path, fs::perms(mode)); };
  as(directory, 0555);
  check_remedy(end("client"), host("client"), "sudo chmod a+rwxt " + directory.string());
  check_remedy(end("server"), host("server"), "sudo install -d -o $(id -u) " + directory.string());
  as(directory, 01777);
  BOOST_TEST(judged(end("client"), host("client")).usable);  // The server may still start later.
  std::ofstream(socket) << "";
  as(socket, 0222);
  BOOST_TEST(judged(end("client"), host("client")).usable);
  as(socket, 0000);
  check_remedy(end("client"), host("client"), "sudo chown $(id -u) " + socket.string());
  as(directory, 0000);
  check_remedy(end("client"), host("client"), "sudo chmod a+rwxt " + directory.string());
  as(directory, 0755);
  fs::remove_all(directory);
}

BOOST_AUTO_TEST_CASE(looking_around_leaves_no_trace_and_finds_what_is_there) {
  const HostEnvironment host = inspect_host(*parse_options("vdev=net_af_packet0,iface=lo"));
  BOOST_TEST(host.interface_there);
  const std::filesystem::path program = boost::unit_test::framework::master_test_suite().argv[0];
  BOOST_TEST(host.program.ends_with(program.filename().string()));
  BOOST_TEST(!inspect_host(*parse_options("vdev=net_af_packet0,iface=nosuchlink")).interface_there);
  BOOST_TEST(!inspect_host(*parse_options("pci=ffff:ff:1f.7")).pci_there);
}

BOOST_AUTO_TEST_SUITE_END()
