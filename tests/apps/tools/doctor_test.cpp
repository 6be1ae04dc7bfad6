#include "apps/tools/doctor.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "apps/tools/remedies.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"
#include "dataplane/port/udp_port.hpp"
#include "tests/dataplane/port/fake_driver.hpp"
#include "tests/dataplane/port/most_descriptors.hpp"

BOOST_AUTO_TEST_SUITE(doctor_test)

using namespace rdmc;
using namespace rdmc::tools;

namespace {

constexpr Duration kShort = milliseconds(50);
const port::PortRequest kLoopback{.address = Address::ipv4(127, 0, 0, 1, 0), .device = {}};

std::unique_ptr<port::Driver> fake(std::string name, const port::Usability& usability, bool opens = true) {
  return std::make_unique<port::test::FakeDriver>(std::move(name), usability, opens);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_fabric_is_named_best_first_with_what_keeps_it_from_use_and_its_remedy) {
  port::Registry registry(port::udp_driver());
  registry.add(fake("absent", {.usable = false, .reason = "no card", .remedy = "buy one"}));
  registry.add(fake("broken", {.usable = true, .reason = "it is there"}, false));
  const auto diagnosis = diagnose(registry, kLoopback, kShort);
  BOOST_REQUIRE(diagnosis.findings.size() == 5u);
  BOOST_TEST(diagnosis.findings[0].fabric == "shm");
  BOOST_TEST((diagnosis.findings[0].tried && *diagnosis.findings[0].tried));
  BOOST_TEST(diagnosis.findings[1].fabric == "verbs");
  const auto& [absent, broken, udp] =
      std::tie(diagnosis.findings[2], diagnosis.findings[3], diagnosis.findings[4]);
  BOOST_TEST(absent.fabric == "absent");
  BOOST_TEST(!absent.usability.usable);
  BOOST_TEST(absent.usability.remedy == "buy one");
  BOOST_TEST(!absent.tried.has_value());
  BOOST_TEST(absent.not_tried == "no card");
  BOOST_REQUIRE(broken.tried.has_value());
  BOOST_TEST(broken.tried->error().what == "broken broke");
  BOOST_TEST(!broken.usability.usable);  // The fabric is unusable, although its probe has found it usable.
  BOOST_TEST(broken.usability.reason == "broken broke");
  BOOST_TEST(!broken.usability.remedy.empty());
  BOOST_REQUIRE((udp.tried && *udp.tried));
  BOOST_TEST(diagnosis.chosen.value() == "shm+udp");
  BOOST_TEST(diagnosis.why.find("no card") != std::string::npos);
  BOOST_TEST(diagnosis.why.find("broken broke") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_self_test_takes_its_time_and_counts_what_arrived) {
  const auto driver = port::udp_driver();
  const auto pair = driver->pair_on_this_host();
  const auto open = [&](const port::PortRequest& request) {
    return fabric::on_port(driver->open(request).value(), {.entropy = std::mt19937(1), .host_id = 1});
  };
  const auto test = run_self_test(open(pair[0]), open(pair[1]), kShort);
  BOOST_REQUIRE(test.has_value());
  BOOST_TEST(test->seconds >= 0.05);
  BOOST_TEST(test->bytes > 0u);
  BOOST_TEST(test->path_mtu >= 1024u);
  BOOST_TEST(!test->icrc);
  BOOST_TEST(test->gigabits_per_second() > 0.001);
}

BOOST_AUTO_TEST_CASE(where_no_fabric_takes_the_request_the_reason_is_told) {
  port::Registry registry(port::udp_driver());
  const auto diagnosis =
      diagnose(registry, {.address = Address::ipv4(192, 0, 2, 77, 0), .device = {}}, kShort);
  BOOST_REQUIRE(!diagnosis.chosen);
  BOOST_TEST(diagnosis.chosen.error().what.find("192.0.2.77") != std::string::npos);
  const port::Usability& udp = diagnosis.findings.back().usability;
  BOOST_TEST(!udp.usable);
  BOOST_TEST(udp.reason.find("192.0.2.77") != std::string::npos);
  BOOST_TEST(udp.remedy.starts_with("rdmc_doctor --address "));
}

BOOST_AUTO_TEST_CASE(udp_is_judged_without_the_device_that_is_in_the_words_of_another) {
  port::Registry registry(port::udp_driver());
  registry.add(fake("absent", {.usable = false, .reason = "no card", .remedy = "buy one"}));
  const auto udp = [&](const Address& address) {
    return diagnose(registry, {.address = address, .device = "a card"}, kShort).findings.back().usability;
  };
  for (const Address& address : {Address{}, kLoopback.address}) {
    const port::Usability usability = udp(address);
    BOOST_TEST(usability.usable, usability.reason);
    BOOST_TEST(usability.remedy.empty());
  }
  const port::Usability elsewhere = udp(Address::ipv4(192, 0, 2, 77, 0));
  BOOST_TEST(!elsewhere.usable);
  BOOST_TEST(elsewhere.reason.starts_with("192.0.2.77 is not an address of this host"), elsewhere.reason);
}

BOOST_AUTO_TEST_CASE(a_machine_is_not_taken_for_another_because_no_file_can_be_opened) {
  const auto entropy = [] { return 0U; };
  const port::test::MostDescriptors none(0);
  const Machine machine = look_at_machine();
  BOOST_TEST(machine.has_proc);
  BOOST_TEST(machine.most_descriptors > 0u);
  const auto shm = fabric::probe_shm({.entropy = entropy, .host_id = 0});
  BOOST_REQUIRE(!shm);
  BOOST_TEST((shm.error().code == Errc::resource_limit));
  BOOST_TEST(remedy_for_shm(shm.error(), machine).find("65536") != std::string::npos);
}

namespace {

port::InterfaceAddress on(std::string interface, const std::string& address, bool loopback = false) {
  return {std::move(interface), *parse_address(address, 0), loopback};
}
port::RdmaGid gid(std::string device, const std::string& address) {
  return {std::move(device), 1, 1, *parse_address(address, 0)};
}

const auto kLo = on("lo", "127.0.0.1", true), kEth = on("eth7", "10.1.2.3"), kWlan = on("wlan0", "10.9.9.9");
const std::string kMoreFiles = "sudo sh -c 'sysctl -w fs.file-max=$((2 * $(cat /proc/sys/fs/file-max)))'";
const std::string kSoftRoceOnEth =
    "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth7 && "
    "rdmc_doctor --address 10.1.2.3";

}  // namespace

// For each result of a probe and each machine, compares the remedy with the expected command. The command
// must be equal in all characters.
BOOST_AUTO_TEST_CASE(every_fabric_that_cannot_be_used_has_one_command_as_its_remedy) {
  const Machine bare{.addresses = {kLo}}, plain{.addresses = {kLo, kEth, kWlan}};
  Machine without_build = plain, cloud = plain, with_nic = plain, without_proc = plain;
  without_build.built_with_verbs = false;
  cloud.has_soft_roce = false;
  with_nic.rdma_gids = {gid("mlx5_0", "10.1.2.3"), gid("mlx5_1", "10.9.9.9")};
  without_proc.has_proc = false;
  const Address loopback = kLo.address, eth = kEth.address, wlan = kWlan.address;
  struct Row {
    std::string remedy, expected;
  };
  const auto verbs = [](Errc code, const Address& wanted, const Machine& machine) {
    return remedy_for_verbs({code, "why"}, wanted, machine);
  };
  const auto shm = [](Errc code, const Machine& machine) { return remedy_for_shm({code, "why"}, machine); };
  const auto system_said = [](int errno_value) { return fail_errno("a socket", errno_value).error(); };
  Machine roomy = plain, cramped = plain;
  roomy.most_descriptors = 1 << 20;
  cramped.most_descriptors = 4096;
  cramped.is_address_space_limited = true;
  Machine walled = cramped;  // On this machine, only root can raise the limits.
  walled.may_lift_address_space = walled.may_lift_locked_memory = false;
  walled.rdma_gids = with_nic.rdma_gids;
  const std::string card = "pci=0000:3b:00.0 address=10.0.0.1/24", no_huge = "vdev=net_memif0 huge=no";
  const auto device = [&](Errc code, const std::string& words) {
    return remedy_for_device({code, "why"}, words, plain);
  };
  for (const auto& [remedy, expected] : std::initializer_list<Row>{
           {verbs(Errc::not_found, loopback, plain), kSoftRoceOnEth},
           {verbs(Errc::not_found, eth, plain), kSoftRoceOnEth},
           {verbs(Errc::not_found, wlan, plain),
            "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev wlan0 && "
            "rdmc_doctor --address 10.9.9.9"},
           {verbs(Errc::unsupported, loopback, plain), kSoftRoceOnEth},
           {verbs(Errc::not_found, loopback, bare),
            "sudo ip link add rdmc0 type dummy && sudo ip address add 192.0.2.1/24 dev rdmc0 && "
            "sudo ip link set rdmc0 up && sudo modprobe rdma_rxe && "
            "sudo rdma link add rxe0 type rxe netdev rdmc0 && rdmc_doctor --address 192.0.2.1"},
           {verbs(Errc::not_found, eth, cloud), "sudo apt-get install linux-image-amd64 && sudo reboot"},
           {verbs(Errc::not_found, loopback, with_nic), "rdmc_doctor --address 10.1.2.3"},
           {verbs(Errc::unsupported, wlan, with_nic), "sudo ip link set wlan0 up"},
           {verbs(Errc::resource_limit, eth, with_nic), "ulimit -l unlimited"},
           {verbs(Errc::resource_limit, eth, walled), "sudo prlimit --pid $$ --memlock=unlimited"},
           {verbs(Errc::permission_denied, eth, with_nic), "sudo chmod a+rw /dev/infiniband/uverbs*"},
           {verbs(Errc::unsupported, eth, without_build),
            "sudo apt-get install libibverbs-dev ibverbs-providers && tools/build build"},
           {shm(Errc::unsupported, without_proc), "sudo mount -t proc proc /proc"},
           {remedy_for_shm(system_said(EMFILE), roomy), "ulimit -n 65536"},
           {remedy_for_shm(system_said(EMFILE), cramped), "sudo prlimit --pid $$ --nofile=65536"},
           {remedy_for_shm(system_said(ENFILE), roomy), kMoreFiles},
           {remedy_for_shm(system_said(ENFILE), without_proc), kMoreFiles},
           {remedy_for_verbs(system_said(EMFILE), eth, roomy), "ulimit -n 65536"},
           {remedy_for_device(system_said(EMFILE), card, roomy), "ulimit -n 65536"},
           {remedy_for_device(system_said(ENFILE), card, roomy), kMoreFiles},
           {with_right_limit({.reason = system_said(EMFILE).what, .remedy = "install"}, cramped).remedy,
            "sudo prlimit --pid $$ --nofile=65536"},
           {with_right_limit({.reason = "no card", .remedy = "buy one"}, cramped).remedy, "buy one"},
           {remedy_for_shm(system_said(ENOMEM), roomy), "sudo sysctl -w vm.overcommit_memory=1"},
           {remedy_for_shm(system_said(ENOMEM), cramped), "ulimit -v unlimited"},
           {remedy_for_shm(system_said(ENOMEM), walled), "sudo prlimit --pid $$ --as=unlimited"},
           {remedy_for_shm(system_said(EAFNOSUPPORT), plain), "sudo modprobe unix"},
           {shm(Errc::permission_denied, plain), "sudo rdmc_doctor"},
           {device(Errc::permission_denied, card), "sudo rdmc_doctor --device '" + card + "'"},
           {device(Errc::resource_limit, card), "rdmc_doctor --device '" + card + " huge=no'"},
           {device(Errc::already_exists, card), "sudo fuser -v /dev/vfio/*"},
           {device(Errc::already_exists, no_huge), "sudo ss -xlp"},
           {device(Errc::io_error, no_huge), remedy_for_dpdk(plain)},
           {remedy_for_device(system_said(ENOMEM), no_huge, cramped), "ulimit -v unlimited"},
           {shm(Errc::unsupported, plain), "sudo apt-get install linux-image-amd64 && sudo reboot"},
           {remedy_for_dpdk(plain),
            "sudo rdmc_doctor --device 'vdev=net_af_packet0,iface=eth7 address=192.0.2.1/24 huge=no'"},
           {remedy_for_dpdk(bare),
            "sudo rdmc_doctor --device 'vdev=net_memif0,role=server address=192.0.2.1/24 huge=no'"},
           {remedy_for_udp({Errc::not_found, "why"}, plain), "rdmc_doctor --address 10.1.2.3"},
           {remedy_for_udp({Errc::not_found, "why"}, bare), "rdmc_doctor --address 127.0.0.1"},
           {remedy_for_udp(system_said(EMFILE), roomy), "ulimit -n 65536"}})
    BOOST_TEST(remedy == expected);
}

BOOST_AUTO_TEST_CASE(no_error_leaves_a_fabric_without_a_remedy) {
  const Machine nothing{};
  for (int code = 0; code < 64; ++code) {
    const Error error{static_cast<Errc>(code), "why"};
    BOOST_TEST(!remedy_for_shm(error, nothing).empty());
    BOOST_TEST(!remedy_for_verbs(error, kLo.address, nothing).empty());
    BOOST_TEST(!remedy_for_udp(error, nothing).empty());
    BOOST_TEST(!remedy_for_device(error, "vdev=net_null0", nothing).empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
