// What all servers have in common beside the data: users and parameters. These tests are about both.
#include <boost/test/unit_test.hpp>

#include "apps/replicated-kv/access/password.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "tests/apps/replicated-kv/several_servers.hpp"

BOOST_AUTO_TEST_SUITE(common_state_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

BOOST_AUTO_TEST_CASE(servers_that_begin_again_without_data_agree_on_users_again) {
  Several servers(1);
  Client& known = servers.at(0).connect("operator", kNow);
  servers.done(0, known, "ACL SETUSER bob on nopass +@all ~*");
  const std::uint64_t bob = servers.at(0).connect("bob", kNow).number;
  servers.done(0, *servers.at(0).find(bob), "AUTH bob x");
  // The data are gone. Until the servers have agreed again, nobody else gets the place of a user.
  servers.at(0).end(kNow, Service::AtEnd::drop_state);
  BOOST_TEST((servers.at(0).users().find("bob") != nullptr));
  servers.at(0).begin(*servers.all[0], 8);
  servers.at(0).on_status({.is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, kNow);
  servers.all.push_back(std::make_unique<OneOfSeveral>(9));
  Client& client = servers.at(1).connect("client", kNow);
  BOOST_TEST(servers.done(1, client, "ACL SETUSER alice on nopass") == "+OK\r\n");
  BOOST_TEST(servers.done(0, known, "SET a 1") == "+OK\r\n");
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST((servers.at(i).users().find("bob") == nullptr));
    BOOST_TEST((servers.at(i).users().find("alice") != nullptr));
  }
  BOOST_TEST((content_of(servers.at(0)) == content_of(servers.at(1))));
  BOOST_TEST((servers.at(0).find(bob) == nullptr));
}

BOOST_AUTO_TEST_CASE(all_servers_change_the_parameters_of_the_service_together) {
  Several servers(2);
  Client& client = servers.at(0).connect("client", kNow);
  const auto shown = [&](std::size_t server, std::string_view name) {
    return servers.at(server).settings().at(name);
  };
  BOOST_TEST(
      servers.done(0, client, "CONFIG SET maxmemory 1mb slowlog-max-len 7 maxmemory-policy allkeys-lru") ==
      "+OK\r\n");
  BOOST_TEST(servers.done(0, client, "MULTI\r\nCONFIG SET maxmemory-policy allkeys-random\r\nEXEC") ==
             "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(shown(i, "maxmemory") == "1048576");
    BOOST_TEST(shown(i, "maxmemory-policy") == "allkeys-random");
  }
  BOOST_TEST(shown(0, "slowlog-max-len") == "7");
  BOOST_TEST(shown(1, "slowlog-max-len") == "128");
  // A wrong value changes nothing, at no server.
  BOOST_TEST(servers.done(0, client, "CONFIG SET maxmemory 5 requirepass x slowlog-max-len no")
                 .starts_with("-ERR "));
  BOOST_TEST(servers.done(0, client, "MULTI\r\nSET a 1\r\nCONFIG SET maxmemory no\r\nEXEC")
                 .starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n-ERR CONFIG SET failed"));
  BOOST_TEST(shown(0, "maxmemory") == "1048576");
  BOOST_TEST(servers.at(0).users().is_open());
  BOOST_TEST(servers.done(0, client, "CONFIG SET requirepass secret maxmemory 2mb") == "+OK\r\n");
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(shown(i, "maxmemory") == "2097152");
    BOOST_TEST(!servers.at(i).users().is_open());
  }
  BOOST_TEST((content_of(servers.at(0)) == content_of(servers.at(1))));
}

BOOST_AUTO_TEST_CASE(keys_are_evicted_whatever_the_users_may_do) {
  Several servers(2);
  Client& client = servers.at(0).connect("client", kNow);
  for (int i = 0; i < 20; ++i) servers.done(0, client, "SET key" + std::to_string(i) + " value");
  servers.done(0, client, "ACL SETUSER default resetpass resetkeys -@all +config");
  servers.at(1).on_status(
      {.is_main = true, .is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, kNow);
  servers.done(0, client, "CONFIG SET maxmemory 1 maxmemory-policy allkeys-random");
  servers.at(1).end_turn(kNow);
  servers.order_all();
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(servers.at(i).databases().keys() == 0u);
}

BOOST_AUTO_TEST_CASE(the_slow_log_has_no_passwords) {
  Service service({.seed = 1});
  Client& client = service.connect("client", kNow);
  send(service, client, "CONFIG SET slowlog-log-slower-than 0");
  send(service, client, "ACL SETUSER bob on >secret +@all ~*");
  send(service, client, "CONFIG SET slowlog-max-len 100 requirepass secret");
  send(service, client, "AUTH secret\r\nAUTH bob secret\r\nHELLO 2 AUTH bob secret SETNAME me");
  const std::string log = send(service, client, "SLOWLOG GET -1");
  BOOST_TEST(!log.contains("secret"));
  BOOST_TEST(!log.contains(digest_of("secret")));
  for (const std::string_view word : {"auth", "hello", "setuser", "requirepass", "(redacted)"})
    BOOST_TEST(to_lower(log).contains(word));
}

BOOST_AUTO_TEST_SUITE_END()
