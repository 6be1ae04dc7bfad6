// All servers have the same collections and the same waiting clients, whoever executes the commands, also
// with random choices, and after a server got the state from another one.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tests/apps/replicated-kv/servers.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(replicated_types_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

Bytes saved_state(Service& service) {
  Bytes bytes;
  service.save([&](std::vector<std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

void give(Server& server, Client& client, const std::string& lines) {
  const auto space = client.parser.space(lines.size() + 2);
  std::ranges::copy(lines, space.data());
  std::memcpy(space.data() + lines.size(), "\r\n", 2);
  client.parser.received(lines.size() + 2);
  server.service().execute(client, server.servers.now());
}

/// A command whose words marked with # become random.
std::string any_command(Servers& servers) {
  static const std::vector<std::string> kPatterns{"RPUSH l# v# v#",
                                                  "LPUSH l# v#",
                                                  "LPOP l#",
                                                  "LMOVE l# l# LEFT RIGHT",
                                                  "LTRIM l# 0 20",
                                                  "LREM l# 0 v#",
                                                  "SADD e# # # v#",
                                                  "SADD e# v# v# v# v# v#",
                                                  "SPOP e#",
                                                  "SPOP e# 2",
                                                  "SRANDMEMBER e# 3",
                                                  "SMOVE e# e# v#",
                                                  "SUNIONSTORE e# e# e#",
                                                  "SREM e# v#",
                                                  "HSET h# v# v# v# v#",
                                                  "HDEL h# v#",
                                                  "HINCRBY h# n# 3",
                                                  "HRANDFIELD h#",
                                                  "ZADD z# # v# # v#",
                                                  "ZINCRBY z# # v#",
                                                  "ZPOPMIN z#",
                                                  "ZREMRANGEBYRANK z# 5 10",
                                                  "ZUNIONSTORE z# 2 z# e#",
                                                  "ZRANDMEMBER z# 2",
                                                  "SORT e# BY nosort STORE l#",
                                                  "BLPOP l# l# 0.01",
                                                  "BRPOP l# 0.02",
                                                  "BLMOVE l# l# LEFT LEFT 0.01",
                                                  "BZPOPMIN z# 0.01",
                                                  "BLMPOP 0.01 2 l# l# LEFT COUNT 2",
                                                  "SETBIT b# # 1",
                                                  "PFADD p# v#",
                                                  "COPY e# e# REPLACE",
                                                  "RENAME h# h#",
                                                  "DEL l#",
                                                  "EXPIRE e# 1",
                                                  "RANDOMKEY",
                                                  "SCAN 0",
                                                  "MULTI|RPUSH l# v#|SPOP e#|SRANDMEMBER e#|BLPOP l# 0|EXEC",
                                                  "SELECT 1|LPUSH l# v#|SELECT 0",
                                                  "SWAPDB 0 1",
                                                  "PUBLISH c v#"};
  std::string text;
  for (const char c : kPatterns[servers.below(kPatterns.size())])
    if (c == '#')
      text += std::to_string(servers.below(servers.below(4) == 0 ? 200 : 4));
    else if (c == '|')
      text += "\r\n";
    else
      text += c;
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(servers_agree_about_collections_and_waiting_clients) {
  for (std::uint64_t seed = 1; seed <= all_or<std::uint64_t>(20, 4); ++seed) {
    Servers servers(seed, 3, 1);
    std::vector<std::pair<Server*, Client*>> clients;
    for (int i = 0; i < 9; ++i) {
      Server& server = *servers.all[static_cast<std::size_t>(i) % 3];
      clients.emplace_back(&server, &server.service().connect("test", servers.now()));
    }
    for (int i = 0; i < 6000; ++i) {
      auto& [server, client] = clients[servers.below(clients.size())];
      if (servers.below(3) == 0) {
        client->output.clear();
        if (client->parser.waiting_bytes() < 1000) give(*server, *client, any_command(servers));
      }
      if (servers.below(500) == 0) {
        server->service().disconnect(*client);
        client = &server->service().connect("test", servers.now());
      }
      if (i == 3000) servers.join();
      servers.step();
    }
    servers.settle();
    // The servers are compared when they have executed the same events.
    const auto are_level = [&] {
      return std::ranges::all_of(servers.all,
                                 [&](const auto& one) { return one->executed == servers.main().executed; });
    };
    for (int i = 0; i < 500'000 && !are_level(); ++i) servers.step();
    BOOST_REQUIRE(are_level());
    for (const auto& one : servers.all)
      BOOST_REQUIRE(saved_state(one->service()) == saved_state(servers.main().service()));
  }
}

BOOST_AUTO_TEST_CASE(a_waiting_client_gets_what_another_server_pushes_and_only_one_of_them_gets_it) {
  Servers servers(5, 3, 1);
  Server &first = *servers.all[0], &second = *servers.all[1], &third = *servers.all[2];
  Client& one = first.service().connect("test", servers.now());
  Client& two = second.service().connect("test", servers.now());
  Client& pusher = third.service().connect("test", servers.now());
  const auto run_until = [&](const auto& condition) {
    for (int i = 0; i < 200'000 && !condition(); ++i) servers.step();
    BOOST_REQUIRE(condition());
  };
  give(first, one, "SET x 1\r\nBLPOP queue 0\r\nGET x");
  run_until([&] { return one.output == "+OK\r\n"; });
  run_until([&] { return !third.service().databases().waiters().is_empty(); });
  give(second, two, "BLPOP queue 0");
  for (int i = 0; i < 2000; ++i) servers.step();
  BOOST_TEST(two.output.empty());
  give(third, pusher, "RPUSH queue first");
  run_until([&] { return one.output.ends_with("$5\r\nfirst\r\n$1\r\n1\r\n"); });
  BOOST_TEST(two.output.empty());
  give(third, pusher, "RPUSH queue second");
  run_until([&] { return two.output == "*2\r\n$5\r\nqueue\r\n$6\r\nsecond\r\n"; });
  for (int i = 0; i < 2000; ++i) servers.step();
  for (const auto& server : servers.all) BOOST_TEST(server->service().databases().waiters().is_empty());
}

BOOST_AUTO_TEST_CASE(a_wait_ends_when_its_time_is_over_or_the_client_is_gone) {
  Servers servers(6, 3, 1);
  Server& server = *servers.all[1];
  Client& late = server.service().connect("test", servers.now());
  Client& gone = server.service().connect("test", servers.now());
  give(server, late, "BLPOP queue 0.001");
  give(server, gone, "BLPOP queue 0");
  bool was_waiting = false;
  for (int i = 0; i < 20'000 && late.output.empty(); ++i) {
    servers.step();
    was_waiting = was_waiting || !servers.all[2]->service().databases().waiters().is_empty();
  }
  BOOST_TEST(was_waiting);
  BOOST_TEST(late.output == "*-1\r\n");
  server.service().disconnect(gone);
  for (int i = 0; i < 5000; ++i) servers.step();
  for (const auto& one : servers.all) BOOST_TEST(one->service().databases().waiters().is_empty());
}

BOOST_AUTO_TEST_CASE(a_message_reaches_the_subscribers_of_all_servers) {
  Servers servers(7, 3, 1);
  std::vector<Client*> subscribers;
  for (const auto& server : servers.all) {
    subscribers.push_back(&server->service().connect("test", servers.now()));
    give(*server, *subscribers.back(), "SUBSCRIBE news");
  }
  Client& publisher = servers.all[1]->service().connect("test", servers.now());
  give(*servers.all[1], publisher, "PUBLISH news hello");
  for (int i = 0; i < 5000; ++i) servers.step();
  for (const Client* const one : subscribers)
    BOOST_TEST(
        one->output ==
        "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
  BOOST_TEST(publisher.output == ":1\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
