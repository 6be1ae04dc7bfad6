#include "dataplane/port/registry.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "dataplane/port/standard_drivers.hpp"
#include "tests/dataplane/port/fake_driver.hpp"

BOOST_AUTO_TEST_SUITE(registry_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

const Usability kUsable{.usable = true, .reason = "it is there"};
const Usability kUnusable{.reason = "no hugepages", .remedy = "sysctl vm.nr_hugepages=64"};

std::unique_ptr<Driver> driver(std::string name, const Usability& usability, bool opens = true) {
  return std::make_unique<FakeDriver>(std::move(name), usability, opens);
}

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_choice_is_the_first_that_works_and_the_fallback_comes_last) {
  BOOST_TEST(rc::check([] {
    struct Plan {
      bool usable, opens;
    };
    const auto plans = *rc::gen::container<std::vector<Plan>>(
        rc::gen::construct<Plan>(rc::gen::arbitrary<bool>(), rc::gen::arbitrary<bool>()));
    Registry registry(driver("last", kUsable));
    std::string expected = "last";
    for (std::size_t i = 0; i < plans.size(); ++i) {
      registry.add(driver("d" + std::to_string(i), plans[i].usable ? kUsable : kUnusable, plans[i].opens));
      if (expected == "last" && plans[i].usable && plans[i].opens) expected = "d" + std::to_string(i);
    }
    RC_ASSERT(registry.drivers().back()->name() == "last");
    const auto opened = registry.open(kAutomatic, {});
    RC_ASSERT(opened.has_value());
    RC_ASSERT(opened->port->info().driver == expected);
    // The reason names each driver that was not chosen, and why it was not chosen.
    for (std::size_t i = 0; i < plans.size() && "d" + std::to_string(i) != expected; ++i) {
      const std::string name = "d" + std::to_string(i);
      RC_ASSERT(says(opened->reason, name + (plans[i].usable ? " failed: " + name + " broke"
                                                             : " cannot be used: no hugepages")));
    }
  }));
}

BOOST_AUTO_TEST_CASE(a_driver_asked_for_by_name_is_opened_or_refused_but_never_replaced) {
  Registry registry(driver("udp", kUsable));
  registry.add(driver("good", kUsable));
  registry.add(driver("absent", kUnusable));
  registry.add(driver("broken", kUsable, false));
  BOOST_TEST(registry.open("udp", {})->port->info().driver == "udp");
  BOOST_TEST(registry.open("good", {})->reason == "asked for");

  const auto absent = registry.open("absent", {});
  BOOST_REQUIRE(!absent.has_value());
  BOOST_TEST((absent.error().code == Errc::unsupported));
  BOOST_TEST(says(absent.error().what, "absent cannot be used: no hugepages"));
  BOOST_TEST(says(absent.error().what, "sysctl vm.nr_hugepages=64"));

  const auto broken = registry.open("broken", {});
  BOOST_REQUIRE(!broken.has_value());
  BOOST_TEST((broken.error().code == Errc::io_error));
}

BOOST_AUTO_TEST_CASE(what_a_port_found_it_must_do_without_is_said_with_the_reason) {
  Registry registry(std::make_unique<FakeDriver>(
      "udp", kUsable, true, std::vector<std::string>{"trains do not work here", "no io_uring"}));
  BOOST_TEST(registry.open("udp", {})->reason == "asked for; trains do not work here; no io_uring");
  BOOST_TEST(registry.open(kAutomatic, {})->reason == "it is there; trains do not work here; no io_uring");
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_refused_with_those_that_are_known) {
  Registry registry(driver("udp", kUsable));
  registry.add(driver("dpdk", kUsable));
  const auto opened = registry.open("pigeon", {});
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST((opened.error().code == Errc::not_found));
  BOOST_TEST(says(opened.error().what, "'pigeon' is unknown; there are auto, dpdk, udp"));
}

BOOST_AUTO_TEST_CASE(when_nothing_works_the_error_is_the_fallbacks_and_tells_of_the_others) {
  Registry registry(driver("udp", kUsable, false));
  registry.add(driver("dpdk", kUnusable));
  const auto opened = registry.open(kAutomatic, {});
  BOOST_REQUIRE(!opened.has_value());
  BOOST_TEST(opened.error().what.starts_with("udp broke; before it: dpdk cannot be used: "));
}

BOOST_AUTO_TEST_CASE(the_products_registry_ends_with_udp_which_works_everywhere) {
  Registry registry = standard_drivers();
  BOOST_TEST(registry.drivers().back()->name() == "udp");
  const auto opened = registry.open("udp", {.address = Address::ipv4(127, 0, 7, 9, 0)});
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(opened->port->info().driver == "udp");
  const auto with_device = registry.open("udp", {.address = Address::ipv4(127, 0, 7, 9, 0), .device = "x"});
  BOOST_REQUIRE(!with_device.has_value());
  BOOST_TEST((with_device.error().code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_SUITE_END()
