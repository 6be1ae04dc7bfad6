// Checks what the udp driver concludes from the RDMA devices in sysfs. A directory of the test replaces
// sysfs.
#include "dataplane/port/rdma_devices.hpp"

#include <fstream>

#include "tests/apps/bcast-cli/scratch_directory.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"

BOOST_AUTO_TEST_SUITE(rdma_devices_test)

using namespace rdmc;
using namespace rdmc::port;

namespace {

struct Devices {
  bcast::ScratchDirectory root;

  void add(const std::string& device, int index, const std::string& gid, const std::string& type) {
    write(root / device / "ports/1/gids" / std::to_string(index), gid);
    write(root / device / "ports/1/gid_attrs/types" / std::to_string(index), type);
  }
  static void write(const std::filesystem::path& file, const std::string& line) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << line << "\n";
  }
};

std::string text(const std::optional<std::string>& device) {
  return device.value_or("none");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_device_owns_the_addresses_of_its_roce_v2_gids_and_no_others) {
  Devices devices;
  devices.add("mlx5_0", 0, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "IB/RoCE v1");
  devices.add("mlx5_0", 1, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "RoCE v2");
  devices.add("mlx5_0", 2, "0000:0000:0000:0000:0000:ffff:0a01:0203", "IB/RoCE v1");
  devices.add("mlx5_1", 3, "0000:0000:0000:0000:0000:ffff:0a01:0204", "RoCE v2");
  devices.add("mlx5_1", 4, "0000:0000:0000:0000:0000:0000:0000:0000", "");
  devices.add("mlx5_1", 5, "2001:0db8:0000:0000:0000:0000:0000:0005", "RoCE v2");
  const auto owner = [&](const std::string& address) {
    return text(rdma_device_at(*parse_address(address, 0), devices.root.path()));
  };
  BOOST_TEST(owner("10.1.2.4") == "mlx5_1");
  BOOST_TEST(owner("[2001:db8::5]") == "mlx5_1");
  BOOST_TEST(owner("[fe80::e42:a1ff:fe00:1]") == "mlx5_0");
  BOOST_TEST(owner("10.1.2.3") == "none");  // RoCE v1 does not use UDP.
  BOOST_TEST(owner("10.1.2.5") == "none");
  BOOST_TEST(owner("[::]") == "none");
}

BOOST_AUTO_TEST_CASE(the_table_of_a_device_is_told_by_port_and_index) {
  Devices devices;
  devices.add("rxe0", 10, "0000:0000:0000:0000:0000:ffff:0a01:0204", "RoCE v2");
  devices.add("rxe0", 2, "2001:0db8:0000:0000:0000:0000:0000:0005", "RoCE v2");
  devices.add("rxe0", 1, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "IB/RoCE v1");
  devices.add("rxe0", 11, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2");
  std::string told;
  for (const RdmaGid& gid : rdma_gids(devices.root.path()))
    told += gid.device + " " + std::to_string(gid.port) + " " + std::to_string(gid.index) + " " +
            host_string(gid.address) + "\n";
  BOOST_TEST(told == "rxe0 1 2 2001:db8::5\nrxe0 1 10 10.1.2.4\n");
}

BOOST_AUTO_TEST_CASE(a_host_without_rdma_devices_has_none_anywhere) {
  BOOST_TEST(text(rdma_device_at(Address::ipv4(127, 0, 0, 1, 0), "/nowhere/at/all")) == "none");
}

BOOST_AUTO_TEST_CASE(the_udp_driver_leaves_roces_port_to_the_device_and_takes_any_other) {
  Devices devices;
  devices.add("mlx5_0", 1, "0000:0000:0000:0000:0000:ffff:7f00:0709", "RoCE v2");
  Address address = test::loopback(9);
  address.port = 4791;
  const auto refused = open_udp_port({.address = address, .rdma_devices = devices.root.path()});
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::already_exists));
  BOOST_TEST(refused.error().what == "UDP port 4791 of 127.0.7.9 belongs to the RDMA device mlx5_0");
  address.port = 0;
  BOOST_TEST(open_udp_port({.address = address, .rdma_devices = devices.root.path()}).has_value());
  address = test::loopback(10);
  address.port = 4791;
  BOOST_TEST(open_udp_port({.address = address, .rdma_devices = devices.root.path()}).has_value());
}

BOOST_AUTO_TEST_CASE(whoever_asks_what_the_driver_can_do_is_told_of_the_device) {
  Devices devices;
  devices.add("mlx5_0", 1, "0000:0000:0000:0000:0000:ffff:7f00:0709", "RoCE v2");
  const auto driver = udp_driver(devices.root.path());
  const auto reason = [&](std::uint8_t host) {
    return driver->probe({.address = test::loopback(host)}).reason;
  };
  BOOST_TEST(driver->probe({.address = test::loopback(9)}).usable);
  BOOST_TEST(reason(9).find("UDP port 4791 of 127.0.7.9 belongs to the RDMA device mlx5_0") !=
             std::string::npos);
  BOOST_TEST(reason(10).find("mlx5_0") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
