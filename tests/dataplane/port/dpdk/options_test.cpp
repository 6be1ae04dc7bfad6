#include "dataplane/port/dpdk/options.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(options_test)

using namespace rdmc;
using namespace rdmc::port::dpdk;

BOOST_AUTO_TEST_CASE(every_word_is_taken) {
  const auto options = parse_options(
      "vdev=net_memif0,role=server,socket=/tmp/s  address=10.0.0.1/16 gateway=10.0.0.254 mtu=4242 huge=no");
  BOOST_REQUIRE(options.has_value());
  BOOST_TEST(options->device == "net_memif0,role=server,socket=/tmp/s");
  BOOST_TEST(options->device_name() == "net_memif0");
  BOOST_TEST(options->driver_name() == "net_memif");
  BOOST_TEST(options->device_argument("role") == "server");
  BOOST_TEST(options->device_argument("socket") == "/tmp/s");
  BOOST_TEST(options->device_argument("sock") == "");
  BOOST_TEST(options->is_virtual);
  BOOST_TEST(host_string(*options->address) == "10.0.0.1");
  BOOST_TEST(options->prefix_bits == 16);
  BOOST_TEST(host_string(*options->gateway) == "10.0.0.254");
  BOOST_TEST(options->mtu == 4242u);
  BOOST_TEST(!options->hugepages);
}

BOOST_AUTO_TEST_CASE(what_is_not_said_is_left_to_the_device) {
  const auto options = parse_options("pci=0000:3b:00.1 address=2001:db8::1");
  BOOST_REQUIRE(options.has_value());
  BOOST_TEST(!options->is_virtual);
  BOOST_TEST(options->driver_name() == "0000:3b:00.1");
  BOOST_TEST(host_string(*options->address) == "2001:db8::1");
  BOOST_TEST(options->prefix_bits == 0);
  BOOST_TEST(options->mtu == 0u);
  BOOST_TEST(options->hugepages);
  BOOST_TEST(!options->gateway.has_value());
}

BOOST_AUTO_TEST_CASE(a_bad_word_is_named) {
  for (const std::string word :
       {"address=10.0.0.1/33", "address=10.0.0.1/", "address=10.0.0.1:80/8", "address=host",
        "gateway=", "gateway=10.0.0.1:1", "mtu=100", "mtu=1500x", "mtu=70000", "huge=maybe",
        "vdev=", "vdev=b", "speed=9", "rubbish", "address=2001:db8::1/129"}) {
    const auto options = parse_options("vdev=net_tap0 " + word);
    BOOST_REQUIRE_MESSAGE(!options.has_value(), word);
    BOOST_TEST((options.error().code == Errc::invalid_argument));
    BOOST_TEST(options.error().what.find(word) != std::string::npos, options.error().what);
  }
}

BOOST_AUTO_TEST_CASE(no_device_is_an_error_and_no_text_is_more_than_that) {
  BOOST_TEST(!parse_options("").has_value());
  BOOST_TEST(!parse_options("mtu=1500").has_value());
  BOOST_TEST(rc::check([](const std::string& text) {
    const auto options = parse_options(text);
    RC_ASSERT(options.has_value() || options.error().code == Errc::invalid_argument);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
