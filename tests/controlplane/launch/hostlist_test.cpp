#include "controlplane/launch/hostlist.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <map>

BOOST_AUTO_TEST_SUITE(hostlist_test)

using namespace rdmc;
using namespace rdmc::control;

namespace {

std::map<std::string, std::string> files;

Result<std::string> from_files(const std::string& path) {
  const auto file = files.find(path);
  if (file == files.end()) return fail(Errc::not_found, "cannot open " + path);
  return file->second;
}

/// Returns the expanded list of hosts, separated by spaces, or the text of the error.
std::string expanded(std::string_view list, std::string_view exclude = "") {
  const auto hosts = expand_hostlist(list, exclude, from_files);
  if (!hosts) return fmt::format("error: {}", hosts.error().what);
  std::string text;
  for (const auto& host : *hosts) text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(host));
  return text;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(plain_names_keep_their_order_and_get_the_default_port) {
  BOOST_TEST(expanded("web2,web1 , db.example.org:80") == "web2:7700 web1:7700 db.example.org:80");
}

BOOST_AUTO_TEST_CASE(brackets_expand_to_numbers_padded_as_their_first_one_is) {
  BOOST_TEST(expanded("n[8-11]") == "n8:7700 n9:7700 n10:7700 n11:7700");
  BOOST_TEST(expanded("n[08-10,3]x") == "n08x:7700 n09x:7700 n10x:7700 n3x:7700");
  BOOST_TEST(expanded("n[099-101]") == "n099:7700 n100:7700 n101:7700");
  BOOST_TEST(expanded("n[0-1]") == "n0:7700 n1:7700");
}

BOOST_AUTO_TEST_CASE(several_brackets_multiply_with_the_last_running_fastest) {
  BOOST_TEST(expanded("r[1-2]n[0,5]:9") == "r1n0:9 r1n5:9 r2n0:9 r2n5:9");
}

BOOST_AUTO_TEST_CASE(addresses_and_ports_may_hold_ranges) {
  BOOST_TEST(expanded("10.0.0.[2-3]:7701") == "10.0.0.2:7701 10.0.0.3:7701");
  BOOST_TEST(expanded("h:[7700-7701]") == "h:7700 h:7701");
  BOOST_TEST(mentions(expanded("10.0.0.[255-256]"), "'10.0.0.256' is not an IPv4 address"));
}

BOOST_AUTO_TEST_CASE(ipv6_addresses_take_a_port_behind_brackets) {
  BOOST_TEST(expanded("[2001:DB8::1]:7701,[::1],fd00::2") == "[2001:db8::1]:7701 [::1]:7700 [fd00::2]:7700");
  BOOST_TEST(expanded("2001:db8::[1-2]") == "[2001:db8::1]:7700 [2001:db8::2]:7700");
  BOOST_TEST(mentions(expanded("[2001:db8::1]7700"), "after an address in brackets"));
  BOOST_TEST(mentions(expanded("[1:2:3]"), "'1:2:3' is not an IPv6 address"));
}

BOOST_AUTO_TEST_CASE(link_local_addresses_are_refused_by_name) {
  for (const std::string host : {"fe80::1%eth0", "[fe80::1%eth0]:7701", "fe80::1", "[febf::1]"}) {
    const auto text = expanded("n1," + host);
    BOOST_TEST(mentions(text, "position 4, in '" + host + "'"), text);
    BOOST_TEST(mentions(text, "is link-local"), text);
  }
  BOOST_TEST(expanded("fec0::1,169.254.0.1") == "[fec0::1]:7700 169.254.0.1:7700");
}

BOOST_AUTO_TEST_CASE(exclusions_take_hosts_away_with_any_port_or_with_the_one_named) {
  BOOST_TEST(expanded("n[1-4]", "n[2-3]") == "n1:7700 n4:7700");
  BOOST_TEST(expanded("n1:1,n1:2", "n1:2") == "n1:1");
  BOOST_TEST(expanded("n1:1,n2:2", "n1") == "n2:2");
  BOOST_TEST(expanded("n[1-3],-n2") == "n1:7700 n3:7700");
  BOOST_TEST(expanded("[2001:db8::1]:7,h", "2001:0db8::1") == "h:7700");
  BOOST_TEST(expanded("n[1-2]", "n[1-2]") == "error: the exclusions leave no host");
}

BOOST_AUTO_TEST_CASE(files_hold_a_list_per_line_and_comments) {
  files = {{"racks", "# all of them\nr1n[1-2]\n\n  r2n1:70 # the odd one\r\n"},
           {"loop", "^racks\n"},
           {"-", "typed"},
           {"bad", "a\n,b\n"}};
  BOOST_TEST(expanded("^racks,x") == "r1n1:7700 r1n2:7700 r2n1:70 x:7700");
  BOOST_TEST(expanded("-") == "typed:7700");
  BOOST_TEST(expanded("r1n[1-3]", "^racks") == "r1n3:7700");
  BOOST_TEST(mentions(expanded("^loop"), "loop line 1, position 1"));
  BOOST_TEST(mentions(expanded("^bad"), "bad line 2, position 1"));
  BOOST_TEST(expanded("^nowhere") == "error: cannot open nowhere");
}

BOOST_AUTO_TEST_CASE(a_host_listed_twice_is_one_host) {
  BOOST_TEST(expanded("n[1-3],n2") == expanded("n[1-3]"));
  BOOST_TEST(expanded("[::1],[0:0:0:0:0:0:0:1]:7700") == expanded("[::1]"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named_with_its_position) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "position 1, in '': an item is empty"},
      {"a,,b", "position 3"},
      {"a,b[1-", "position 4, in 'b[1-': '[' without ']'"},
      {"a]b", "position 2, in 'a]b': ']' without '['"},
      {"n[1[2]]", "brackets do not nest"},
      {"n[]", "a bracket holds numbers"},
      {"n[1,]", "a bracket holds numbers"},
      {"n[a-b]", "a bracket holds numbers"},
      {"n[1-2-3]", "a bracket holds numbers"},
      {"n[5-1]", "the range runs backwards"},
      {"n[1-010]", "padded"},
      {"n[1-9999999999]", "at most 9 digits"},
      {"ok,n:70000", "position 4, in 'n:70000': '70000' is not a port"},
      {"n:", "'' is not a port"},
      {"n:0", "'0' is not a port"},
      {":7", "the host's name is empty"},
      {"n m", "letters, digits"},
      {"n;m", "letters, digits"},
      {"1234", "'1234' is not an IPv4 address"},
      {"/web.*/", "regular expressions are not supported"},
  };
  for (const auto& [list, part] : cases) {
    const auto text = expanded(list);
    BOOST_TEST(mentions(text, "error: "), list << " gave " << text);
    BOOST_TEST(mentions(text, part), list << " gave " << text);
  }
  BOOST_TEST(mentions(expanded("n1", "n[1-"), "exclusion, position 2"));
  BOOST_TEST(mentions(expanded("n1,n2", "-n1"), "remove its '-'"));
}

BOOST_AUTO_TEST_CASE(a_list_that_explodes_is_refused_before_it_is_expanded) {
  for (const auto* list :
       {"n[0-999999999]", "n[0-99999]", "n[0-999][0-999][0-999][0-999][0-999][0-999][0-999]", "a[1-16384],b",
        "n[0-999999999,0-999999999,0-999999999]"})
    BOOST_TEST(mentions(expanded(list), "more than 16384 hosts"), list);
  BOOST_TEST(mentions(expanded("n1", "x[0-999999999]"), "more than 16384 hosts"));
  BOOST_TEST(mentions(expanded("n[1-16384]" + std::string(1 << 20, 'x')), "longer than 253"));
  std::string brackets;
  for (int i = 0; i < 100'000; ++i) brackets += "[1]";
  BOOST_TEST(mentions(expanded("n[1-9]" + brackets), "too many brackets"));
  BOOST_TEST(expand_hostlist("n[1-16384]", "", from_files).value().size() == 16384u);
}

BOOST_AUTO_TEST_CASE(a_range_names_every_number_in_it_once_with_its_padding) {
  BOOST_TEST(rc::check([] {
    const auto low = *rc::gen::inRange<std::uint32_t>(0, 20'000);
    const auto count = *rc::gen::inRange<std::uint32_t>(1, 300);
    const auto width = *rc::gen::inRange(0, 8);
    const auto text = fmt::format("n[{:0{}}-{}]", low, width, low + count - 1);
    const auto hosts = expand_hostlist(text, "", from_files);
    const auto low_digits = fmt::format("{:0{}}", low, width);
    const bool padded = low_digits.size() > 1 && low_digits[0] == '0';
    RC_ASSERT(hosts.has_value());
    RC_ASSERT(hosts->size() == count);
    for (std::uint32_t i = 0; i < count; ++i)
      RC_ASSERT((*hosts)[i].name ==
                (padded ? fmt::format("n{:0{}}", low + i, width) : fmt::format("n{}", low + i)));
  }));
}

BOOST_AUTO_TEST_CASE(any_text_ends_in_hosts_that_read_back_as_themselves_or_in_a_named_error) {
  BOOST_TEST(rc::check([] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab01239[]-,:.^ /x[]-,:\xff")));
    const auto hosts = expand_hostlist(text, "", from_files);
    if (!hosts) {
      RC_ASSERT(!hosts.error().what.empty());
      return;
    }
    std::string written;
    for (const auto& host : *hosts)
      written += fmt::format("{}{}", written.empty() ? "" : ",", to_string(host));
    RC_ASSERT(expand_hostlist(written, "", from_files).value() == *hosts);
  }));
}

BOOST_AUTO_TEST_CASE(exclusion_is_the_difference_of_two_lists) {
  BOOST_TEST(rc::check([] {
    const auto all = *rc::gen::inRange<std::uint32_t>(1, 60);
    const auto from = *rc::gen::inRange<std::uint32_t>(1, 60);
    const auto to = from + *rc::gen::inRange<std::uint32_t>(0, 30);
    std::vector<Host> expected;
    for (std::uint32_t i = 1; i <= all; ++i) {
      if (i < from || i > to) expected.push_back({fmt::format("n{}", i), kDefaultPort});
    }
    const auto hosts =
        expand_hostlist(fmt::format("n[1-{}]", all), fmt::format("n[{}-{}]", from, to), from_files);
    RC_ASSERT(hosts.has_value() == !expected.empty());
    if (hosts) RC_ASSERT(*hosts == expected);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
