#define BOOST_TEST_MODULE tools_doctor
#include "apps/tools/doctor.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "dataplane/port/udp_port.hpp"
#include "tests/dataplane/port/fake_driver.hpp"

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
}
