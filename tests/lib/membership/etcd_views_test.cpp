// Tests the public membership with views in a real etcd server.
#include <boost/test/unit_test.hpp>

#include "tests/controlplane/store/etcd_servers.hpp"
#include "tests/lib/membership/members.hpp"

BOOST_AUTO_TEST_SUITE(etcd_views_test)

using namespace rdmc;
using namespace rdmc::testing;

BOOST_AUTO_TEST_CASE(views_are_kept_in_etcd_and_groups_follow_them) {
  store::testing::EtcdServers etcd(1);
  const auto options = [&](const std::string& name) {
    MembershipOptions with_etcd = options_for({}, name);
    with_etcd.store = {.nodes = {}, .runs = {}, .directory = {}, .etcd = etcd.endpoints()};
    return with_etcd;
  };
  Process one(options("one"));
  BOOST_TEST_REQUIRE(one.sees(1));
  auto two = std::make_unique<Process>(options("two"));
  BOOST_TEST_REQUIRE((one.sees(2) && two->sees(2)));
  BOOST_TEST((one.membership->view() == two->membership->view()));
  Part& part = one.make_part({.first_members = 2});
  BOOST_TEST((two->make_part({.first_members = 2}).is_in(2, one.id()) && part.is_in(2, one.id())));
  BOOST_TEST(part.send(std::vector<std::byte>(5000)) == 0U);
  BOOST_TEST(two->part->has(1));
  two.reset();
  BOOST_TEST((one.sees(1) && part.is_in(1, one.id())));
}

BOOST_AUTO_TEST_SUITE_END()
