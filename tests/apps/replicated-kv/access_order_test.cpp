// Users in the order of events: several servers answer like one server that gets the requests in their order
// (decision 105).
#include <rapidcheck/boost_test.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/replicated-kv/service/service.hpp"
#include "tests/apps/replicated-kv/several_servers.hpp"

BOOST_AUTO_TEST_SUITE(access_order_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

/// Requests of an operator, who is the default user, and of others, who log in as bob.
rc::Gen<std::string> request_of_operator() {
  return rc::gen::elementOf(std::vector<std::string>{
      "ACL SETUSER bob on nopass +@all ~*", "ACL SETUSER bob on nopass +@all ~*", "ACL SETUSER bob -set",
      "ACL SETUSER bob resetkeys ~a", "ACL SETUSER bob -@list", "ACL SETUSER bob >secret",
      "ACL SETUSER bob off", "ACL DELUSER bob", "ACL GETUSER bob", "ACL LIST", "SET a 1", "RPUSH list x y",
      "GET a", "CONFIG SET acl-pubsub-default allchannels"});
}

rc::Gen<std::string> request_of_user() {
  return rc::gen::elementOf(std::vector<std::string>{
      "AUTH bob secret", "AUTH bob secret", "AUTH bob wrong", "SET a 2", "SET b 3", "GET a", "MGET a b",
      "RPUSH list z", "LPOP list", "BLPOP list 0", "INCR counter", "WATCH b", "SORT list BY w*",
      "PUBLISH news 1", "HELLO 2 AUTH bob secret"});
}

constexpr std::size_t kServers = 3, kClients = 5;

}  // namespace

RC_BOOST_PROP(several_servers_answer_like_one_that_gets_the_requests_in_their_order, ()) {
  Several servers(kServers);
  Service one({.seed = 1});
  // A client at one of the servers, and the same client at the server that is alone. Client 0 is the
  // operator.
  struct Pair {
    std::uint64_t here, there;
    std::size_t server;
    std::string request;  // that is submitted and not ordered
  };
  std::vector<Pair> clients;
  for (std::size_t i = 0; i < kClients; ++i)
    clients.push_back({.here = servers.at(i % kServers).connect("here", kNow).number,
                       .there = one.connect("there", kNow).number,
                       .server = i % kServers});
  // For each server, the clients whose requests are its events. Other events say that a client is gone.
  std::array<std::deque<std::optional<std::size_t>>, kServers> submitted;
  const auto note_other_events = [&] {
    for (std::size_t i = 0; i < kServers; ++i)
      while (submitted[i].size() < servers.all[i]->unordered.size()) submitted[i].emplace_back(std::nullopt);
  };
  std::string trace;
  const auto order_one = [&](std::size_t server) {
    if (submitted[server].empty()) return;
    const auto index = submitted[server].front();
    submitted[server].pop_front();
    if (index) {
      Pair& pair = clients[*index];
      trace += std::to_string(*index) + ": " + pair.request + "\n";
      if (Client* const there = one.find(pair.there)) send(one, *there, pair.request);
      end_lost(one);
      pair.request.clear();
    }
    servers.order_one(server);
    note_other_events();
  };
  const auto submit = [&](std::size_t index, const std::string& request) {
    Pair& pair = clients[index];
    Client& here = *servers.at(pair.server).find(pair.here);
    const std::size_t before = servers.all[pair.server]->unordered.size();
    pair.request = request;
    send(servers.at(pair.server), here, request);
    RC_ASSERT(servers.all[pair.server]->unordered.size() == before + 1);
    submitted[pair.server].emplace_back(index);
  };
  // At first, everybody but the operator is bob, who may do much.
  for (std::size_t i = 0; i < kClients; ++i) {
    submit(i, i == 0 ? "ACL SETUSER bob on nopass +@all ~*" : "AUTH bob secret");
    order_one(clients[i].server);
  }
  const auto steps = *rc::gen::inRange<int>(5, 60);
  for (int i = 0; i < steps; ++i) {
    if (*rc::gen::inRange(0, 3) == 0) {
      order_one(*rc::gen::inRange<std::size_t>(0, kServers));
    } else {
      const auto index = *rc::gen::inRange<std::size_t>(0, kClients);
      Pair& pair = clients[index];
      Client* const here = servers.at(pair.server).find(pair.here);
      if (here == nullptr || !pair.request.empty() || here->may_be_waiting || here->is_closing) continue;
      submit(index, index == 0 ? *request_of_operator() : *request_of_user());
    }
  }
  for (std::size_t server = 0; server < kServers; ++server)
    while (!submitted[server].empty()) order_one(server);
  servers.order_all();
  end_lost(one);
  for (std::size_t i = 1; i < kServers; ++i)
    RC_ASSERT(content_of(servers.at(i)) == content_of(servers.at(0)));
  // What the operator reads is the same, and so are the connections that are left.
  const auto read = [&](Service& service, Client& client, bool is_alone) {
    std::string all;
    client.output.clear();
    for (const std::string_view request : {"ACL LIST", "MGET a b counter", "LRANGE list 0 -1", "TYPE a"})
      all += is_alone ? send(service, client, request) : servers.done(0, client, request);
    return all;
  };
  RC_LOG() << trace;
  RC_ASSERT(read(servers.at(0), *servers.at(0).find(clients[0].here), false) ==
            read(one, *one.find(clients[0].there), true));
  for (const Pair& pair : clients)
    RC_ASSERT((servers.at(pair.server).find(pair.here) == nullptr) == (one.find(pair.there) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_write_that_comes_after_the_removal_of_its_user_has_no_effect_at_any_server) {
  Several servers(2);
  Client& operator_client = servers.at(0).connect("operator", kNow);
  Client& bob = servers.at(1).connect("bob", kNow);
  BOOST_TEST(servers.done(0, operator_client, "ACL SETUSER bob on >secret +@all ~*") == "+OK\r\n");
  BOOST_TEST(servers.done(1, bob, "AUTH bob secret\r\nSET a 1") == "+OK\r\n+OK\r\n");
  // The server of bob does not know of the removal yet when it submits the write.
  BOOST_TEST(send(servers.at(0), operator_client, "ACL DELUSER bob").empty());
  const std::uint64_t number = bob.number;
  BOOST_TEST(send(servers.at(1), bob, "SET a 2").empty());
  servers.order_all();
  BOOST_TEST(operator_client.output == ":1\r\n");
  operator_client.output.clear();
  BOOST_TEST(servers.done(0, operator_client, "GET a") == "$1\r\n1\r\n");
  BOOST_TEST((servers.at(1).find(number) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_command_that_waits_is_refused_when_its_user_may_not_give_it_any_more) {
  Several servers(2);
  Client& operator_client = servers.at(0).connect("operator", kNow);
  Client& bob = servers.at(1).connect("bob", kNow);
  servers.done(0, operator_client, "ACL SETUSER bob on nopass +@all ~*");
  BOOST_TEST(servers.done(1, bob, "AUTH bob x\r\nBLPOP list 0") == "+OK\r\n");
  servers.done(0, operator_client, "ACL SETUSER bob -blpop");
  BOOST_TEST(servers.done(0, operator_client, "RPUSH list x\r\nLLEN list") == ":1\r\n:1\r\n");
  BOOST_TEST(bob.output == "-NOPERM this user has no permissions to run the 'blpop' command\r\n");
}

BOOST_AUTO_TEST_CASE(all_servers_know_who_gives_the_commands_of_a_transaction) {
  Several servers(2);
  Client& operator_client = servers.at(0).connect("operator", kNow);
  Client& client = servers.at(1).connect("client", kNow);
  servers.done(0, operator_client, "ACL SETUSER bob on >secret +set +get ~b");
  BOOST_TEST(
      servers.done(1, client, "MULTI\r\nSET a 1\r\nAUTH bob secret\r\nSET a 2\r\nSET b 3\r\nEXEC")
          .ends_with(
              "*4\r\n+OK\r\n+OK\r\n"
              "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the "
              "EXEC call. This command is no longer allowed for the following reason: no permission to "
              "touch the specified keys\r\n+OK\r\n"));
  BOOST_TEST(servers.done(1, client, "GET b\r\nGET a").starts_with("$1\r\n3\r\n-NOPERM "));
  BOOST_TEST((content_of(servers.at(0)) == content_of(servers.at(1))));
}

BOOST_AUTO_TEST_CASE(the_users_that_come_first_in_the_order_count) {
  Several servers(2);
  const auto with_password = [](const char* password) {
    Users users;
    const auto rules = with_digests(std::to_array<std::string_view>({"resetpass", password}));
    BOOST_REQUIRE(users.set(Users::kDefault, std::vector<std::string_view>(rules->begin(), rules->end())));
    return users;
  };
  servers.at(0).set_first_users(with_password(">one"));
  servers.at(1).set_first_users(with_password(">two"));
  Client& first = servers.at(0).connect("first", kNow);
  Client& second = servers.at(1).connect("second", kNow);
  BOOST_TEST(send(servers.at(0), first, "SET a 1") == "-NOAUTH Authentication required.\r\n");
  BOOST_TEST(send(servers.at(1), second, "PING") == "-NOAUTH Authentication required.\r\n");
  send(servers.at(0), first, "AUTH one");
  send(servers.at(1), second, "AUTH two");
  BOOST_TEST(servers.order_one(1));
  BOOST_TEST(servers.order_one(0));
  BOOST_TEST(second.output == "+OK\r\n");
  BOOST_TEST(first.output.starts_with("-WRONGPASS "));
  BOOST_TEST(servers.at(0).take_warnings().size() == 1u);
  BOOST_TEST(servers.at(1).take_warnings().empty());
}

BOOST_AUTO_TEST_CASE(the_users_of_the_command_line_replace_those_of_a_stored_state_once) {
  Several before(1), servers(3);
  Client& earlier = before.at(0).connect("earlier", kNow);
  before.done(0, earlier, "SET a 1\r\nACL SETUSER bob on >secret +@all ~*");
  const Bytes state = content_of(before.at(0));
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_REQUIRE(servers.at(i).on_load({.step = LoadState::Step::begin}));
    BOOST_REQUIRE(servers.at(i).on_load({.step = LoadState::Step::bytes, .bytes = state}));
    BOOST_REQUIRE(servers.at(i).on_load({.step = LoadState::Step::end, .position = before.position}));
  }
  servers.position = before.position;
  const auto with_password = [&](const char* password) {
    Users users;
    users.replace(servers.at(0).users());
    const auto rules = with_digests(std::to_array<std::string_view>({"resetpass", password}));
    BOOST_REQUIRE(users.set(Users::kDefault, std::vector<std::string_view>(rules->begin(), rules->end())));
    return users;
  };
  servers.at(0).replace_users(with_password(">one"));
  servers.at(1).replace_users(with_password(">two"));
  std::vector<Client*> clients;
  for (std::size_t i = 0; i < 3; ++i) clients.push_back(&servers.at(i).connect("client", kNow));
  BOOST_TEST(send(servers.at(0), *clients[0], "GET a").starts_with("-LOADING "));
  BOOST_TEST(send(servers.at(1), *clients[1], "GET a").starts_with("-LOADING "));
  servers.order_all();
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(servers.done(i, *clients[i], "GET a") == "-NOAUTH Authentication required.\r\n");
    BOOST_TEST(servers.done(i, *clients[i], "AUTH two").starts_with("-WRONGPASS "));
    BOOST_TEST(servers.done(i, *clients[i], "AUTH one\r\nGET a") == "+OK\r\n$1\r\n1\r\n");
    BOOST_TEST(servers.done(i, *clients[i], "AUTH bob secret") == "+OK\r\n");
    BOOST_TEST((content_of(servers.at(i)) == content_of(servers.at(0))));
    BOOST_TEST(servers.at(i).take_warnings().size() == (i == 0 ? 0u : 1u));
  }
}

BOOST_AUTO_TEST_CASE(a_client_can_end_its_own_connection_in_a_transaction) {
  Several servers(2);
  Client& client = servers.at(0).connect("client", kNow);
  const std::uint64_t number = client.number;
  const std::string kill = "CLIENT KILL ID " + std::to_string(number) + " SKIPME no";
  send(servers.at(0), client, "MULTI\r\nSELECT 0\r\nECHO a\r\n" + kill + "\r\nECHO b\r\nEXEC");
  servers.order_all();
  BOOST_TEST((servers.at(0).find(number) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_password_is_never_in_an_event) {
  Several servers(1);
  Client& client = servers.at(0).connect("client", kNow);
  for (const std::string_view request :
       {"ACL SETUSER bob on >verysecret", "AUTH bob verysecret", "HELLO 3 AUTH bob verysecret",
        "CONFIG SET requirepass verysecret", "AUTH verysecret", "AUTH default bob verysecret",
        "MULTI\r\nAUTH bob verysecret\r\nACL SETUSER bob <verysecret\r\nEXEC",
        "HELLO 4 AUTH bob verysecret"}) {
    send(servers.at(0), client, request);
    for (const Bytes& event : servers.all[0]->unordered) {
      const std::string_view text(reinterpret_cast<const char*>(event.data()), event.size());
      BOOST_TEST(!text.contains("verysecret"), request);
    }
    servers.order_all();
    client.output.clear();
  }
}

BOOST_AUTO_TEST_CASE(who_has_acted_as_the_default_user_stays_it_when_it_gets_a_password) {
  Several servers(2);
  Client& known = servers.at(0).connect("known", kNow);
  Client& unknown = servers.at(1).connect("unknown", kNow);
  BOOST_TEST(servers.done(1, unknown, "PING") == "+PONG\r\n");
  BOOST_TEST(servers.done(0, known, "CONFIG SET requirepass secret\r\nSET a 1") == "+OK\r\n+OK\r\n");
  BOOST_TEST(servers.done(1, unknown, "SET a 2") == "-NOAUTH Authentication required.\r\n");
  BOOST_TEST(servers.done(1, unknown, "AUTH secret\r\nGET a") == "+OK\r\n$1\r\n1\r\n");
}

BOOST_AUTO_TEST_CASE(clients_of_a_server_that_comes_back_to_another_service_must_log_in_again) {
  Several old(1), other(1);
  Client& operator_client = old.at(0).connect("operator", kNow);
  old.done(0, operator_client, "ACL SETUSER bob on nopass +@all ~*");
  const std::uint64_t bob = old.at(0).connect("bob", kNow).number;
  old.done(0, *old.at(0).find(bob), "AUTH bob x");
  Client& other_operator = other.at(0).connect("operator", kNow);
  // The first users of the two services get different random numbers.
  other.position = 100;
  other.done(0, other_operator, "ACL SETUSER alice on nopass +@all ~*");
  BOOST_REQUIRE(other.at(0).users().find("alice")->number() == old.at(0).users().find("bob")->number());
  const Bytes state = content_of(other.at(0));
  Service& service = old.at(0);
  service.end(kNow, Service::AtEnd::drop_state);
  BOOST_REQUIRE(service.on_load({.step = LoadState::Step::begin}));
  BOOST_REQUIRE(service.on_load({.step = LoadState::Step::bytes, .bytes = state}));
  BOOST_REQUIRE(service.on_load({.step = LoadState::Step::end, .position = 101}));
  end_lost(service);
  BOOST_TEST((service.find(bob) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_client_without_a_password_cannot_make_the_server_keep_much) {
  Service service({.seed = 1});
  Client& client = service.connect("client", kNow);
  send(service, client, "CONFIG SET requirepass secret");
  Client& unknown = service.connect("unknown", kNow);
  BOOST_TEST(
      send(service, unknown, "*11").starts_with("-ERR Protocol error: unauthenticated multibulk length"));
  Client& second = service.connect("second", kNow);
  BOOST_TEST(
      send(service, second, "*1\r\n$16385").starts_with("-ERR Protocol error: unauthenticated bulk length"));
  Client& third = service.connect("third", kNow);
  while (!third.is_lost && third.output.size() < (1 << 20)) {
    const std::string kept = third.output;
    const std::string replies = send(service, third, "GET a");
    if (!third.is_lost) third.output = kept + replies;
  }
  BOOST_TEST(third.is_lost);
}

BOOST_AUTO_TEST_SUITE_END()
