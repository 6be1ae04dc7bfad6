#include "tests/dataplane/port/udp_fixture.hpp"

BOOST_AUTO_TEST_SUITE(udp_open_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {
Errc refusal(const UdpPortOptions& options) {
  const auto port = open_udp_port(options);
  BOOST_REQUIRE(!port.has_value());
  BOOST_TEST(!port.error().what.empty());
  return port.error().code;
}
}  // namespace

BOOST_AUTO_TEST_CASE(only_a_concrete_address_of_this_host_can_be_bound) {
  BOOST_TEST((refusal({.address = Address::ipv4(0, 0, 0, 0, 0)}) == Errc::invalid_argument));
  BOOST_TEST((refusal({.address = {.ipv6 = true}}) == Errc::invalid_argument));
  BOOST_TEST((refusal({.address = Address::ipv4(239, 1, 1, 1, 0)}) == Errc::invalid_argument));
  BOOST_TEST((refusal({.address = Address::ipv4(192, 0, 2, 1, 0)}) == Errc::not_found));
}

BOOST_AUTO_TEST_CASE(a_taken_udp_port_is_named_in_the_error) {
  const auto first = open(1);
  const auto second = open_udp_port({.address = first->info().address});
  BOOST_REQUIRE(!second.has_value());
  BOOST_TEST((second.error().code == Errc::already_exists));
  BOOST_TEST(second.error().what.find(to_string(first->info().address)) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_port_on_loopback_knows_what_it_can_carry) {
  const auto port = open(1);
  const PortInfo& info = port->info();
  BOOST_TEST(info.driver == "udp");
  BOOST_TEST(info.same_host_only);
  BOOST_TEST(info.mtu > 9000U);
  BOOST_TEST(info.train_bytes > 60'000U);
  BOOST_TEST(info.address.port != 0);
  BOOST_TEST(port->udp_port(kSharedFlow) == info.address.port);
  BOOST_TEST(info.identification_counts_up == (info.train_segments > 1));
}

BOOST_AUTO_TEST_CASE(ipv6_has_no_identification) {
  const auto port = open({.address = loopback(1, true)});
  BOOST_TEST(port->info().address.ipv6);
  BOOST_TEST(port->info().same_host_only);
  BOOST_TEST(!port->info().identification_counts_up);
}

BOOST_AUTO_TEST_CASE(a_larger_receive_buffer_is_asked_for_and_reported) {
  const auto small = open({.address = loopback(1), .receive_buffer_bytes = 32 * 1024});
  const auto large = open({.address = loopback(1), .receive_buffer_bytes = 128 * 1024});
  BOOST_TEST(small->info().receive_buffer_bytes == 32U * 1024);
  BOOST_TEST(large->info().receive_buffer_bytes == 128U * 1024);
}

BOOST_AUTO_TEST_CASE(many_flows_have_udp_ports_of_their_own) {
  const auto port = open(1);
  std::vector<std::uint16_t> numbers{port->udp_port(kSharedFlow)};
  for (int i = 0; i < 64; ++i) numbers.push_back(port->udp_port(*port->open_flow()));
  // As long as a port number of the range is free, the numbers are from the range that RoCEv2 reserves for
  // distinguishing flows.
  BOOST_TEST(std::ranges::all_of(std::span(numbers).subspan(1), [](int number) { return number >= 0xC000; }));
  std::ranges::sort(numbers);
  BOOST_TEST((std::ranges::adjacent_find(numbers) == numbers.end()));
}

BOOST_AUTO_TEST_SUITE_END()
