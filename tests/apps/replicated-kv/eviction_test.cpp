// The limit of memory, and evictions: all servers keep the same keys.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/apps/replicated-kv/lone_servers.hpp"
#include "tests/apps/replicated-kv/servers.hpp"

BOOST_AUTO_TEST_SUITE(eviction_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

constexpr std::string_view kOutOfMemory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// Commands of all types, with values of all sizes.
std::string random_command(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t most) { return random() % most; };
  const std::string number = std::to_string(below(150));
  const std::string value(below(10) == 0 ? below(3000) : below(60), 'v');
  switch (below(16)) {
    case 0: return "APPEND s" + number + " " + value + "x";
    case 1: return "SETRANGE s" + number + " " + std::to_string(below(500)) + " abc";
    case 2: return "RPUSH l" + number + " " + value + "x y z";
    case 3: return "LPOP l" + number + " 2";
    case 4: return "HSET h" + number + " f" + std::to_string(below(20)) + " x" + value;
    case 5: return "HDEL h" + number + " f" + std::to_string(below(20));
    case 6: return "SADD t" + number + " " + std::to_string(below(100'000)) + " m" + value;
    case 7: return "SPOP t" + number;
    case 8: return "ZADD z" + number + " 1 a" + value + " 2 b" + std::to_string(below(200));
    case 9: return "ZREMRANGEBYRANK z" + number + " 0 0";
    case 10: return "DEL s" + number + " l" + number;
    case 11: return "PEXPIRE s" + number + " " + std::to_string(1 + below(2000));
    case 12: return "GET s" + number;
    case 13: return "SADD i" + number + " " + std::to_string(below(70'000)) + " 1 2 3";
    case 14: return "RENAME s" + number + " s" + std::to_string(below(150));
    default: return "SET s" + number + " x" + value;
  }
}

class Fed {
 public:
  explicit Fed(std::uint64_t seed) : servers(seed, 3, 1) {}
  void send(Server& server, const std::string& line) {
    if (!server.is_alive) return;
    Client*& client = clients_[server.id];
    if (client == nullptr) client = &server.service().connect("fed", server.clock());
    if (server.service().is_full(*client)) return;
    const std::string request = line + "\r\n";
    std::ranges::copy(request, client->parser.space(request.size()).data());
    client->parser.received(request.size());
    server.service().execute(*client, server.clock());
    client->output.clear();
  }
  Servers servers;

 private:
  std::map<std::uint64_t, Client*> clients_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(all_servers_hold_the_same_keys_whatever_is_evicted_and_whoever_joins) {
  std::uint64_t evicted = 0;
  for (const NamedPolicy& policy : kPolicies)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) BOOST_TEST_CONTEXT(policy.name << " seed " << seed) {
        Fed fed(seed);
        std::mt19937_64 random(seed);
        fed.send(*fed.servers.all[1],
                 "CONFIG SET maxmemory 30000 maxmemory-policy " + std::string(policy.name));
        for (int i = 0; i < 4000; ++i) {
          Server& server = fed.servers.any_alive();
          if (fed.servers.below(3) == 0) fed.send(server, random_command(random));
          if (fed.servers.below(700) == 0 && fed.servers.all.size() < 6) fed.servers.join();
          if (fed.servers.below(900) == 0 && fed.servers.alive() > 2) fed.servers.kill(fed.servers.main());
          fed.servers.step();
        }
        fed.servers.settle();
        for (int i = 0; i < 2000; ++i) fed.servers.step();
        fed.servers.settle();
        Service& main = fed.servers.main().service();
        evicted += main.databases().evicted();
        const bool may_be_over = main.databases().is_over_limit() && main.databases().evictable() > 0;
        BOOST_TEST(!may_be_over);
        for (const auto& one : fed.servers.all) {
          if (!one->is_alive) continue;
          BOOST_REQUIRE(content(one->service()) == content(main));
          BOOST_REQUIRE(one->service().databases().memory().used() == main.databases().memory().used());
          BOOST_REQUIRE((one->service().databases().limit() == main.databases().limit()));
        }
      }
  BOOST_TEST(evicted > 1000u);
}

BOOST_AUTO_TEST_CASE(what_keys_need_is_measured_alike_after_a_transfer_and_is_nothing_without_keys) {
  Alone alone, other;
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) alone(random_command(random));
  Bytes state = content(alone.service);
  BOOST_REQUIRE(other.service.on_load({.step = LoadState::Step::begin}));
  BOOST_REQUIRE(other.service.on_load({.step = LoadState::Step::bytes, .bytes = state}));
  BOOST_REQUIRE(other.service.on_load({.step = LoadState::Step::end}));
  BOOST_TEST(alone.service.databases().memory().used() > 0u);
  BOOST_TEST(alone.service.databases().memory().used() == other.service.databases().memory().used());
  alone("FLUSHALL");
  BOOST_TEST(alone.service.databases().memory().used() == 0u);
}

BOOST_AUTO_TEST_CASE(commands_that_need_memory_are_refused_and_others_are_not) {
  Alone alone;
  alone("SET a " + std::string(10'000, 'v'));
  BOOST_TEST(alone("CONFIG SET maxmemory 5000") == "+OK\r\n");
  BOOST_TEST(alone("SET b 1") == kOutOfMemory);
  BOOST_TEST(alone("BLMOVE x y LEFT LEFT 0") == kOutOfMemory);
  BOOST_TEST(alone("STRLEN a\r\nEXPIRE a 100") == ":10000\r\n:1\r\n");
  BOOST_TEST(alone("MULTI\r\nSET b 1\r\nEXEC") ==
             "+OK\r\n" + std::string(kOutOfMemory) +
                 "-EXECABORT Transaction discarded because of previous errors.\r\n");
  BOOST_TEST(alone("MULTI\r\nPING\r\nEXEC") == "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
  // The limit is only exceeded when the transaction is executed.
  Client& other = alone.connect();
  alone("CONFIG SET maxmemory 0\r\nMULTI\r\nSET b 1");
  alone(other, "CONFIG SET maxmemory 5000");
  BOOST_TEST(alone("EXEC") ==
             "-EXECABORT Transaction discarded because of: OOM command not allowed when used "
             "memory > 'maxmemory'.\r\n");
  BOOST_TEST(alone("DEL a\r\nSET b 1") == ":1\r\n+OK\r\n");
  // No key has a deadline, so none may be evicted.
  alone("CONFIG SET maxmemory 5000 maxmemory-policy volatile-lru\r\nSET a " + std::string(10'000, 'v'));
  BOOST_TEST(alone("SET c 1") == kOutOfMemory);
  BOOST_TEST(alone("EXPIRE a 100\r\nSET c 1\r\nEXISTS a b c") == ":1\r\n+OK\r\n:2\r\n");
}

BOOST_AUTO_TEST_CASE(the_policy_says_which_keys_go) {
  const auto left = [](std::string_view policy, auto fill) {
    Alone alone;
    fill(alone);
    alone.pass(2000);
    BOOST_TEST(alone("CONFIG SET maxmemory-samples 64 maxmemory-policy " + std::string(policy)) == "+OK\r\n");
    const std::size_t used = alone.service.databases().memory().used();
    alone("CONFIG SET maxmemory " + std::to_string(used / 2) + "\r\nPING\r\nSELECT 0");
    std::string kept = alone("KEYS *");
    return kept;
  };
  const auto old_and_new = [](Alone& alone) {
    for (int i = 0; i < 10; ++i) alone("SET old" + std::to_string(i) + " " + std::string(100, 'v'));
    alone.pass(100'000);
    for (int i = 0; i < 10; ++i) alone("SET new" + std::to_string(i) + " " + std::string(90, 'v'));
  };
  BOOST_TEST(!left("allkeys-lru", old_and_new).contains("old"));
  const auto often_and_seldom = [](Alone& alone) {
    alone("CONFIG SET maxmemory-policy allkeys-lfu");
    for (int i = 0; i < 10; ++i) {
      alone("SET often" + std::to_string(i) + " " + std::string(90, 'v'));
      for (int uses = 0; uses < 200; ++uses) alone("GET often" + std::to_string(i));
      alone("SET seldom" + std::to_string(i) + " " + std::string(100, 'v'));
    }
  };
  BOOST_TEST(!left("allkeys-lfu", often_and_seldom).contains("seldom"));
  const auto soon_and_late = [](Alone& alone) {
    for (int i = 0; i < 10; ++i) {
      alone("SET late" + std::to_string(i) + " " + std::string(90, 'v') + " EX " + std::to_string(1000 + i));
      alone("SET soon" + std::to_string(i) + " " + std::string(100, 'v') + " EX " + std::to_string(100 + i));
    }
  };
  BOOST_TEST(!left("volatile-ttl", soon_and_late).contains("soon"));
  const auto some_with_deadline = [](Alone& alone) {
    for (int i = 0; i < 10; ++i) {
      alone("SET with" + std::to_string(i) + " " + std::string(150, 'v') + " EX 1000");
      alone("SET without" + std::to_string(i) + " " + std::string(50, 'v'));
    }
  };
  for (const std::string_view policy : {"volatile-lru", "volatile-lfu", "volatile-random"}) {
    const std::string kept = left(policy, some_with_deadline);
    for (int i = 0; i < 10; ++i) BOOST_TEST(kept.contains("without" + std::to_string(i)));
  }
}

BOOST_AUTO_TEST_CASE(reads_of_clients_of_other_servers_count_as_uses_at_the_main) {
  Fed fed(5);
  Server& other = **std::ranges::find_if(fed.servers.all,
                                         [&](const auto& one) { return one->id != fed.servers.main().id; });
  fed.send(other, "CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lru");
  fed.send(other, "SET a 1");
  fed.servers.settle();
  Databases& databases = fed.servers.main().service().databases();
  fed.servers.pass(50'000);
  fed.servers.settle();
  fed.send(other, "GET a");
  fed.servers.settle();
  const Database::Entry* const entry = databases.at(0).find("a", 0);
  BOOST_REQUIRE(entry != nullptr);
  BOOST_TEST(databases.shared().usage.idle_seconds(entry->value.usage) < 10u);
}

BOOST_AUTO_TEST_SUITE_END()
