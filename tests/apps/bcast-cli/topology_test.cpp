#include "apps/bcast-cli/topology.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(topology_test)

using namespace rdmc;
using namespace rdmc::bcast;
using session::MemberId;

namespace {

std::string complaint(std::string_view text) {
  const auto parsed = Topology::parse(text, "racks.txt");
  if (parsed) return "accepted";
  BOOST_CHECK(parsed.error().code == Errc::invalid_argument);
  return parsed.error().what;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::uint32_t> numbers(const std::vector<MemberId>& members) {
  std::vector<std::uint32_t> all;
  for (const auto member : members) all.push_back(value_of(member));
  return all;
}

std::vector<std::pair<MemberId, Address>> at(const std::vector<std::string>& addresses) {
  std::vector<std::pair<MemberId, Address>> members;
  for (const auto& address : addresses)
    members.emplace_back(MemberId{static_cast<std::uint32_t>(members.size())},
                         parse_address(address, 7700).value());
  return members;
}

Ranking ranked(const std::vector<std::string>& addresses) {
  return rank_by_address(at(addresses));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_names_the_racks_of_hosts) {
  const auto topology = Topology::parse(
      "# the left row\n"
      "left  web[01-03] web07,db1\n"
      "\n"
      "right 10.0.0.[2-3]:7701   # two agents\n"
      "left\tweb09\r\n"
      "right 10.0.0.4",
      "racks.txt");
  BOOST_REQUIRE(topology.has_value());
  BOOST_TEST(topology->racks() == 2u);
  for (const char* name : {"web01", "web03", "web07", "db1", "web09"})
    BOOST_CHECK(topology->rack_of({name}) == 0U);
  BOOST_CHECK(!topology->rack_of({"web04"}));
  BOOST_CHECK(topology->rack_of({"10.0.0.2", 7701}) == 1U);
  BOOST_CHECK(!topology->rack_of({"10.0.0.2", 7702}));
  BOOST_CHECK(topology->rack_of({"10.0.0.4", 7702}) == 1U);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named_with_its_line) {
  BOOST_TEST(mentions(complaint("a n1\n\nb\n"), "racks.txt line 3: rack 'b' has no host"));
  BOOST_TEST(mentions(complaint("a n[1-\n"), "racks.txt line 1: "));
  BOOST_TEST(mentions(complaint("a n1\nb n2\na n[2-5]\n"),
                      "racks.txt line 3: n2:7700 is in another rack already (line 2)"));
  BOOST_TEST(mentions(complaint("a ^more\n"), "racks.txt line 1: "));
  BOOST_TEST(mentions(complaint("# nothing\n\n"), "racks.txt names no rack"));
  BOOST_TEST(mentions(complaint(""), "racks.txt names no rack"));
  BOOST_TEST(complaint("a n1\na n1\n") == "accepted");
}

BOOST_AUTO_TEST_CASE(members_of_one_host_then_of_one_subnet_are_side_by_side) {
  const auto ranking =
      ranked({"10.0.1.1", "10.0.2.1", "10.0.1.2", "10.0.2.2", "10.0.2.1:7701", "10.0.1.1:7702"});
  BOOST_TEST(numbers(ranking.members) == (std::vector<std::uint32_t>{0, 5, 2, 1, 4, 3}));
  BOOST_TEST(ranking.racks.sizes() == (std::vector<std::uint32_t>{3, 3}));
}

BOOST_AUTO_TEST_CASE(all_loopback_addresses_are_one_host) {
  const auto ranking = ranked({"127.0.0.1", "127.0.1.1", "127.9.9.9", "[::1]:7700"});
  BOOST_TEST(numbers(ranking.members) == (std::vector<std::uint32_t>{0, 1, 2, 3}));
  BOOST_TEST(ranking.racks.sizes() == (std::vector<std::uint32_t>{4}));
}

BOOST_AUTO_TEST_CASE(ipv6_subnets_have_64_bits) {
  const auto ranking =
      ranked({"[2001:db8:0:1::1]:7700", "[2001:db8:0:2::1]:7700", "[2001:db8:0:1:5::2]:7700"});
  BOOST_TEST(numbers(ranking.members) == (std::vector<std::uint32_t>{0, 2, 1}));
  BOOST_TEST(ranking.racks.sizes() == (std::vector<std::uint32_t>{2, 1}));
}

BOOST_AUTO_TEST_CASE(the_members_of_one_host_are_side_by_side_and_make_a_rack) {
  const auto ranking =
      rank_by_host(at({"10.0.1.1", "10.0.2.1", "10.0.1.1:7701", "127.0.0.5", "10.0.2.1:7701", "127.0.0.9"}));
  BOOST_TEST(numbers(ranking.members) == (std::vector<std::uint32_t>{0, 2, 1, 4, 3, 5}));
  BOOST_TEST(ranking.racks.sizes() == (std::vector<std::uint32_t>{2, 2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
