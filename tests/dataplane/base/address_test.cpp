#include "dataplane/base/address.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/gid.hpp"

namespace rdmc {
namespace {

constexpr std::uint16_t kDefaultPort = 7700;

rc::Gen<Address> any_address() {
  return rc::gen::map(rc::gen::tuple(rc::gen::arbitrary<bool>(), rc::gen::arbitrary<std::uint64_t>(),
                                     rc::gen::arbitrary<std::uint64_t>(), rc::gen::arbitrary<std::uint16_t>(),
                                     rc::gen::inRange(0, 17)),
                      [](const auto& drawn) {
                        const auto& [ipv6, high, low, port, zeros] = drawn;
                        Address address{.ipv6 = ipv6, .port = port};
                        // The text form of IPv6 shortens a run of zeros, so some of the addresses begin with
                        // zeros.
                        for (int i = zeros; i < (ipv6 ? 16 : 4); ++i)
                          address.bytes[i] = static_cast<std::uint8_t>((i < 8 ? high : low) >> (i % 8 * 8));
                        return address;
                      });
}

/// Parses an address and converts the result back to text. Returns "refused" if the text cannot be parsed.
std::string parsed(std::string_view text) {
  const auto address = parse_address(text, kDefaultPort);
  return address ? to_string(*address) : "refused";
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  BOOST_TEST(rc::check([] {
    const Address address = *any_address();
    const auto whole = parse_address(to_string(address), kDefaultPort);
    RC_ASSERT(whole.has_value());
    RC_ASSERT(*whole == address);
    const auto host = parse_address(host_string(address), address.port);
    RC_ASSERT(host.has_value());
    RC_ASSERT(*host == address);
  }));
}

BOOST_AUTO_TEST_CASE(whatever_is_accepted_means_what_it_is_written_back_as) {
  BOOST_TEST(rc::check([] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::element('0', '1', '9', 'a', 'F', ':', '.', '[', ']', '%', '-', '+', ' ', '\0'));
    const auto address = parse_address(text, kDefaultPort);
    if (!address) {
      RC_ASSERT(address.error().code == Errc::invalid_argument);
      RC_ASSERT(address.error().what.contains(text));
      return;
    }
    const auto again = parse_address(to_string(*address), 0);
    RC_ASSERT(again.has_value());
    RC_ASSERT(*again == *address);
  }));
}

BOOST_AUTO_TEST_CASE(the_port_may_be_left_out) {
  BOOST_TEST(parsed("10.0.0.5") == "10.0.0.5:7700");
  BOOST_TEST(parsed("10.0.0.5:1") == "10.0.0.5:1");
  BOOST_TEST(parsed("10.0.0.5:65535") == "10.0.0.5:65535");
  BOOST_TEST(parsed("2001:db8::1") == "[2001:db8::1]:7700");
  BOOST_TEST(parsed("[2001:db8::1]") == "[2001:db8::1]:7700");
  BOOST_TEST(parsed("[2001:db8::1]:80") == "[2001:db8::1]:80");
  BOOST_TEST(parsed("2001:db8::1:80") == "[2001:db8::1:80]:7700", "without brackets it is all address");
}

BOOST_AUTO_TEST_CASE(one_address_written_in_several_ways_is_one_value) {
  BOOST_TEST(
      (parse_address("[2001:DB8:0:0:0:0:0:1]:80", 0).value() == parse_address("2001:db8::1", 80).value()));
  BOOST_TEST((parse_address("::ffff:10.0.0.5", 80).value() != parse_address("10.0.0.5", 80).value()),
             "the family counts");
}

BOOST_AUTO_TEST_CASE(what_is_no_address_is_refused_and_named) {
  const std::string texts[] = {"",
                               "host",
                               "10.0.0",
                               "10.0.0.256",
                               "10.0.0.5:",
                               "10.0.0.5:x",
                               "10.0.0.5:65536",
                               ":80",
                               "10.0.0.5:-1",
                               "10.0.0.5:+1",
                               "10.0.0.5 ",
                               "[::1",
                               "[::1]80",
                               "[::1]:",
                               "[::1]:80:",
                               "[]",
                               "[10.0.0.5]:80",
                               "::1::2",
                               "1:2:3:4:5:6:7:8:9",
                               "12345::",
                               "[[::1]]",
                               "::1]",
                               "010.0.0.5",
                               std::string("10.0.0.5\0x", 10)};
  for (const auto& text : texts) {
    const auto address = parse_address(text, kDefaultPort);
    BOOST_REQUIRE_MESSAGE(!address.has_value(), text);
    BOOST_TEST((address.error().code == Errc::invalid_argument));
    const bool names_it = address.error().what.find("'" + text + "'") != std::string::npos;
    BOOST_TEST(names_it, address.error().what);
  }
}

BOOST_AUTO_TEST_CASE(a_zone_is_refused_as_such) {
  for (const std::string text : {"fe80::1%eth0", "[fe80::1%2]:80", "2001:db8::1%", "10.0.0.5%eth0"}) {
    const auto address = parse_address(text, kDefaultPort);
    BOOST_REQUIRE_MESSAGE(!address.has_value(), text);
    BOOST_TEST((address.error().code == Errc::invalid_argument));
    BOOST_TEST(address.error().what == "an address with a zone: '" + text + "'");
  }
}

BOOST_AUTO_TEST_CASE(link_local_are_the_first_ten_bits_of_ipv6) {
  for (const auto* text : {"fe80::", "fe80::1", "febf:ffff::1"})
    BOOST_TEST(is_link_local(parse_address(text, 0).value()), text);
  for (const auto* text : {"fec0::1", "fe7f::1", "ff02::1", "::1", "169.254.0.1", "254.128.0.1"})
    BOOST_TEST(!is_link_local(parse_address(text, 0).value()), text);
}

BOOST_AUTO_TEST_CASE(a_gid_has_the_address_and_no_port) {
  BOOST_TEST(rc::check([] {
    Address address = *any_address();
    if (address.ipv6)
      address.bytes[0] |= 0x20;  // An IPv4-mapped IPv6 address is read back as the IPv4 address.
    const Address again = from_gid(to_gid(address));
    address.port = 0;
    RC_ASSERT(again == address);
  }));
  const auto mapped = to_gid(Address::ipv4(10, 0, 0, 5, 80));
  BOOST_TEST((mapped == parse_address("::ffff:10.0.0.5", 0).value().bytes));
}

BOOST_AUTO_TEST_CASE(a_wildcard_and_a_multicast_address_are_no_hosts) {
  for (const auto* text :
       {"10.0.0.5", "127.0.0.1", "223.255.255.255", "0.0.0.1", "::1", "2001:db8::1", "fe80::1"})
    BOOST_TEST(is_host_address(parse_address(text, 0).value()), text);
  for (const auto* text : {"224.0.0.0", "239.1.2.3", "255.255.255.255", "ff00::", "ff02::1"})
    BOOST_TEST(
        (!is_host_address(parse_address(text, 0).value()) && !is_wildcard(parse_address(text, 0).value())),
        text);
  for (const auto* text : {"0.0.0.0", "::"})
    BOOST_TEST(
        (!is_host_address(parse_address(text, 80).value()) && is_wildcard(parse_address(text, 80).value())),
        text);
}

BOOST_AUTO_TEST_CASE(loopback_is_a_whole_network_of_ipv4_and_one_address_of_ipv6) {
  for (const auto* text : {"127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"})
    BOOST_TEST(is_loopback(parse_address(text, 0).value()), text);
  for (const auto* text :
       {"126.255.255.255", "128.0.0.1", "::", "::2", "::1:1", "fe80::1", "::ffff:127.0.0.1"})
    BOOST_TEST(!is_loopback(parse_address(text, 0).value()), text);
}

BOOST_AUTO_TEST_CASE(a_wrong_port_is_named_as_one) {
  BOOST_TEST(parse_address("10.0.0.5:65536", kDefaultPort).error().what.starts_with("'65536' is not a port"));
}

}  // namespace rdmc
