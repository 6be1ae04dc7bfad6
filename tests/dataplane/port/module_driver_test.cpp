#include "dataplane/port/module_driver.hpp"

#include <boost/test/unit_test.hpp>

#include "dataplane/port/registry.hpp"
#include "tests/dataplane/port/fake_driver.hpp"
#include "tests/dataplane/port/most_descriptors.hpp"

BOOST_AUTO_TEST_SUITE(module_driver_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

const PortRequest kOnDevice{.address = {}, .device = "the first"};

Registry with_module(std::string file) {
  Registry registry(std::make_unique<FakeDriver>("udp", Usability{.usable = true}));
  registry.add(module_driver(
      {.name = "loaded", .file = std::move(file), .remedy = "apt install it", .devices = "list them"}));

  return registry;
}

/// Checks two things: the automatic choice skips the module in `file` for a reason that contains `words`, and
/// a request by name is refused for the same reason.
void check_refused(std::string file, std::string_view words) {
  Registry registry = with_module(std::move(file));
  const auto opened = registry.open(kAutomatic, kOnDevice);
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(opened->port->info().driver == "udp");
  BOOST_TEST(opened->reason.find(words) != std::string::npos, opened->reason);
  const auto named = registry.open("loaded", kOnDevice);
  BOOST_REQUIRE(!named.has_value());
  BOOST_TEST((named.error().code == Errc::unsupported));
  BOOST_TEST(named.error().what.find(words) != std::string::npos, named.error().what);
  BOOST_TEST(named.error().what.find("apt install it") != std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_module_brings_a_driver_whose_ports_outlive_the_registry) {
  std::unique_ptr<Port> port;
  {
    Registry registry = with_module(RDMC_TEST_MODULE);
    auto opened = registry.open(kAutomatic, kOnDevice);
    BOOST_REQUIRE(opened.has_value());
    port = std::move(opened->port);
  }
  BOOST_TEST(port->info().driver == "loaded");
}

BOOST_AUTO_TEST_CASE(nothing_is_loaded_for_a_request_that_names_no_device) {
  Registry registry = with_module("librdmc_nowhere.so");
  const auto opened = registry.open(kAutomatic, {});
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(opened->reason == "loaded cannot be used: no device is named");
  const auto named = registry.open("loaded", {});
  BOOST_REQUIRE(!named.has_value());
  BOOST_TEST(named.error().what.find("list them") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_module_that_is_not_installed_is_passed_over_with_the_command_that_installs_it) {
  check_refused("librdmc_nowhere.so", "librdmc_nowhere.so");
}

BOOST_AUTO_TEST_CASE(a_module_that_cannot_be_looked_for_without_descriptors_may_be_installed) {
  const auto driver = module_driver(
      {.name = "loaded", .file = "/librdmc_nowhere.so", .remedy = "apt install it", .devices = "list them"});
  {
    const MostDescriptors none(0);
    BOOST_TEST(driver->probe(kOnDevice).remedy == "ulimit -n 65536");
  }
  BOOST_TEST(driver->probe(kOnDevice).remedy == "apt install it");
}

BOOST_AUTO_TEST_CASE(a_module_of_another_version_is_not_used) {
  check_refused(RDMC_OTHER_MODULE, "of version 0.0.0");
}

BOOST_AUTO_TEST_CASE(a_library_that_is_no_module_is_not_used) {
  check_refused("libm.so.6", "libm.so.6 is not a module of rdmc");
}

BOOST_AUTO_TEST_SUITE_END()
