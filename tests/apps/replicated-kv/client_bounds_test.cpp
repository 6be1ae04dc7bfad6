// These tests are about the things that one client may make a server keep: names, watched keys,
// subscriptions, keys that it waits for, and long lines.
#include <boost/test/unit_test.hpp>

#include <string>

#include "tests/apps/replicated-kv/lone_servers.hpp"
#include "tests/apps/replicated-kv/several_servers.hpp"

BOOST_AUTO_TEST_SUITE(client_bounds_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

constexpr std::size_t kMegabyte = 1 << 20;

}  // namespace

BOOST_AUTO_TEST_CASE(names_of_clients_and_users_are_short) {
  Alone alone;
  const std::string longest(1024, 'n');
  BOOST_TEST(alone("CLIENT SETNAME " + longest) == "+OK\r\n");
  for (const std::string words : {"CLIENT SETNAME ", "HELLO 3 SETNAME "})
    BOOST_TEST(alone(words + longest + "n") == "-ERR Client names cannot have more than 1024 bytes.\r\n");
  BOOST_TEST(alone("CLIENT GETNAME") == "$1024\r\n" + longest + "\r\n");
  BOOST_TEST(alone("ACL SETUSER " + longest) == "+OK\r\n");
  BOOST_TEST(alone("ACL SETUSER " + longest + "n") ==
             "-ERR The name of a user may have at most 1024 bytes\r\n");
}

BOOST_AUTO_TEST_CASE(a_client_that_waits_keeps_no_memory_of_a_long_line) {
  Alone alone;
  Client& client = alone.connect();
  std::string line = "GET";
  for (int i = 0; i < 30'000; ++i) line += " a";
  BOOST_TEST(alone(client, line + "\r\nBLPOP nothing 0").starts_with("-ERR wrong number"));
  BOOST_TEST(client.may_be_waiting);
  BOOST_TEST(client.parser.memory() < 200'000u);
}

BOOST_AUTO_TEST_CASE(a_parser_counts_the_words_of_a_line) {
  RequestParser parser({});
  std::string line;
  for (int i = 0; i < 30'000; ++i) line += "a ";
  line += "\r\n";
  std::ranges::copy(line, parser.space(line.size()).data());
  parser.received(line.size());
  BOOST_TEST((parser.next() == RequestParser::Status::complete));
  BOOST_TEST(parser.memory() > 30'000 * (sizeof(std::string) + sizeof(std::string_view)));
  BOOST_TEST((parser.next() == RequestParser::Status::incomplete));
  parser.shrink();
  BOOST_TEST(parser.memory() < 200'000u);
}

BOOST_AUTO_TEST_CASE(a_client_keeps_no_memory_of_a_transaction_that_has_ended) {
  Alone alone;
  Client& client = alone.connect();
  std::string lines = "MULTI\r\n";
  for (int i = 0; i < 20'000; ++i) lines += "PING\r\n";
  alone(client, lines + "DISCARD");
  BOOST_TEST(client.queued.capacity() == 0u);
}

BOOST_AUTO_TEST_CASE(a_server_whose_log_has_failed_says_so_only_to_those_who_may_write) {
  Alone alone;
  alone("ACL SETUSER bob on >secret +get ~*");
  alone("CONFIG SET requirepass open");
  alone.service.set_log_info({.is_there = true, .failure = "no space"});
  Client& client = alone.connect();
  BOOST_TEST(alone(client, "SET a 1") == "-NOAUTH Authentication required.\r\n");
  BOOST_TEST(alone("SET a 1") == "-MISCONF Errors writing to the AOF file: no space\r\n");
  BOOST_TEST(alone("MULTI\r\nSET a 1\r\nEXEC") ==
             "+OK\r\n-MISCONF Errors writing to the AOF file: no space\r\n"
             "-EXECABORT Transaction discarded because of previous errors.\r\n");
  BOOST_TEST(alone("GET a") == "$-1\r\n");
}

BOOST_AUTO_TEST_CASE(limits_of_requests_reach_clients_that_are_connected) {
  Alone alone;
  Client& client = alone.connect();
  BOOST_TEST(alone(client, "PING") == "+PONG\r\n");
  BOOST_TEST(alone("CONFIG SET proto-max-bulk-len 1mb client-query-buffer-limit 2mb") == "+OK\r\n");
  BOOST_TEST(alone(client, "*2\r\n$3\r\nGET\r\n$2000000") == "-ERR Protocol error: invalid bulk length\r\n");
  BOOST_TEST(client.is_closing);
  Client& other = alone.connect();
  const std::string word = "$1000000\r\n" + std::string(1'000'000, 'x') + "\r\n";
  BOOST_TEST(alone(other, "*4\r\n$4\r\nMGET\r\n" + word + word + "$1000000") ==
             "-ERR Protocol error: the request is longer than client-query-buffer-limit\r\n");
}

BOOST_AUTO_TEST_CASE(watched_keys_are_counted_and_bounded_alike_at_all_servers) {
  Several servers(2);
  Client& client = servers.at(0).connect("test", kNow);
  const auto watch = [&](int first, int last) {
    std::string line = "WATCH";
    for (int i = first; i < last; ++i) line += " " + std::to_string(i) + std::string(50, 'k');
    return servers.done(0, client, line);
  };
  const std::size_t before = servers.at(0).memory_of_clients();
  int watched = 0;
  while (watch(watched, watched + 500) == "+OK\r\n") watched += 500;
  BOOST_TEST(watched > 5000);
  BOOST_TEST(watched < 20'000);
  BOOST_TEST(servers.at(0).memory_of_clients() - before > 3 * kMegabyte);
  BOOST_TEST(watch(watched, watched + 500) == "-ERR the client watches too many keys\r\n");
  BOOST_TEST(watch(0, 500) == "+OK\r\n");
  for (const auto& one : servers.all) {
    auto& watches = one->service.databases().watches();
    BOOST_TEST(watches.keys_of({1, client.number}).size() == static_cast<std::size_t>(watched));
    BOOST_TEST(watches.bytes_of({1, client.number}) <= Watches::kMostClientBytes);
  }
  BOOST_TEST(content_of(servers.at(0)) == content_of(servers.at(1)));
  // What a server gets from another one counts as much there.
  Service fresh({.is_alone = false});
  fresh.on_load({.step = LoadState::Step::begin});
  BOOST_TEST(fresh.on_load({.step = LoadState::Step::bytes, .bytes = content_of(servers.at(0))}));
  BOOST_TEST(fresh.on_load({.step = LoadState::Step::end}));
  BOOST_TEST(fresh.databases().watches().bytes_of({1, client.number}) ==
             servers.at(0).databases().watches().bytes_of({1, client.number}));
  servers.done(0, client, "UNWATCH");
  servers.done(0, client, "PING");
  BOOST_TEST(servers.at(0).memory_of_clients() < 100'000u);
}

BOOST_AUTO_TEST_CASE(a_command_that_waits_for_keys_is_counted_and_bounded_alike_at_all_servers) {
  Several servers(2);
  Client& client = servers.at(0).connect("test", kNow);
  Client& other = servers.at(1).connect("test", kNow);
  const auto wait_for = [&](int keys, const std::string& command) {
    std::string line = command;
    for (int i = 0; i < keys; ++i) line += " " + std::to_string(i);
    return servers.done(0, client, line + " 0");
  };
  BOOST_TEST(wait_for(10'000, "BLPOP") == "");
  BOOST_TEST(client.may_be_waiting);
  BOOST_TEST(servers.at(0).memory_of_clients() > 10'000 * 250u);
  BOOST_TEST(servers.done(1, other, "RPUSH 9999 x") == ":1\r\n");
  BOOST_TEST(std::exchange(client.output, {}) == "*2\r\n$4\r\n9999\r\n$1\r\nx\r\n");
  BOOST_TEST(servers.at(0).memory_of_clients() == 0u);
  std::string line = "*20002\r\n$5\r\nBLPOP\r\n";
  for (int i = 0; i < 20'000; ++i) line += "$5\r\n" + std::to_string(10'000 + i) + "\r\n";
  BOOST_TEST(servers.done(0, client, line + "$1\r\n0") == "-ERR the command waits for too many keys\r\n");
  BOOST_TEST(!client.may_be_waiting);
  for (const auto& one : servers.all) BOOST_TEST(one->service.databases().waiters().is_empty());
  // It does not wait if it finds something.
  servers.done(1, other, "RPUSH 10001 x");
  BOOST_TEST(servers.done(0, client, line + "$1\r\n0") == "*2\r\n$5\r\n10001\r\n$1\r\nx\r\n");
}

BOOST_AUTO_TEST_CASE(subscriptions_are_counted_and_bounded) {
  Alone alone;
  Client& client = alone.connect();
  std::string line = "*10001\r\n$9\r\nSUBSCRIBE\r\n";
  for (int i = 0; i < 10'000; ++i) line += "$5\r\n" + std::to_string(10'000 + i) + "\r\n";
  alone(client, line);
  BOOST_TEST(alone.service.memory_of_clients() > 10'000 * 250u);
  const std::string large = std::string(1000, 'p');
  std::string last;
  for (int i = 0; i < 40 && !last.starts_with("-"); ++i) {
    line = "*1001\r\n$10\r\nPSUBSCRIBE\r\n";
    for (int k = 0; k < 1000; ++k)
      line += "$1007\r\n" + std::to_string(100 + i) + std::to_string(1000 + k) + large + "\r\n";
    last = alone(client, line);
  }
  BOOST_TEST(last == "-ERR the client has too many subscriptions\r\n");
  BOOST_TEST(alone.service.memory_of_clients() < 34 * kMegabyte);
  BOOST_TEST(alone(client, "SUBSCRIBE 10000").starts_with("*3\r\n$9\r\nsubscribe"));
  alone(client, "UNSUBSCRIBE\r\nPUNSUBSCRIBE");
  BOOST_TEST(alone(client, "PING") == "+PONG\r\n");
  BOOST_TEST(alone.service.memory_of_clients() == 0u);
}

BOOST_AUTO_TEST_CASE(somebody_without_a_password_puts_nothing_of_his_own_into_events) {
  Several servers(2);
  Client& operator_ = servers.at(0).connect("test", kNow);
  servers.done(0, operator_, "ACL SETUSER bob on >secret +@all ~*\r\nCONFIG SET requirepass open");
  Client& client = servers.at(0).connect("test", kNow);
  const std::string name(16'000, 'n');
  for (const std::string& login : {"AUTH " + name + " " + name, "HELLO 3 AUTH " + name + " " + name +
                                                                    " SETNAME " + name.substr(0, 1024)}) {
    BOOST_TEST(send(servers.at(0), client, login) == "");
    BOOST_TEST(servers.all[0]->unordered.front().size() < 32u);
    servers.order_all();
    BOOST_TEST(std::exchange(client.output, {}).starts_with("-WRONGPASS"));
  }
  BOOST_TEST(servers.done(0, client, "HELLO 3 AUTH bob secret SETNAME me").starts_with("%7\r\n"));
  BOOST_TEST(servers.done(0, client, "CLIENT GETNAME") == "$2\r\nme\r\n");
  BOOST_TEST(servers.done(0, client, "ACL WHOAMI") == "$3\r\nbob\r\n");
  // Another user from here on, also in a transaction, which all servers execute.
  servers.done(0, client, "AUTH open\r\nMULTI\r\nAUTH bob secret\r\nSET a 1\r\nACL SETUSER carl\r\nEXEC");
  BOOST_TEST(servers.done(0, client, "ACL WHOAMI") == "$3\r\nbob\r\n");
  BOOST_TEST(content_of(servers.at(0)) == content_of(servers.at(1)));
}

BOOST_AUTO_TEST_CASE(a_connection_ends_when_its_logins_have_failed_often) {
  Several servers(2);
  Client& operator_ = servers.at(0).connect("test", kNow);
  servers.done(0, operator_, "CONFIG SET requirepass open");
  Client& client = servers.at(0).connect("test", kNow);
  const std::uint64_t number = client.number;
  for (int i = 0; i < 15; ++i) BOOST_TEST(servers.done(0, client, "AUTH wrong").starts_with("-WRONGPASS"));
  BOOST_TEST(servers.done(0, client, "AUTH open") == "+OK\r\n");
  for (int i = 0; i < 15; ++i) BOOST_TEST(servers.done(0, client, "AUTH wrong").starts_with("-WRONGPASS"));
  BOOST_TEST(!client.is_closing);
  // Only one is on its way at a time, whatever the client sends.
  BOOST_TEST(send(servers.at(0), client, "AUTH wrong\r\nAUTH open\r\nAUTH open") == "");
  BOOST_TEST(servers.all[0]->unordered.size() == 1u);
  servers.order_all();
  BOOST_TEST(servers.at(0).find(number) == nullptr);
}

BOOST_AUTO_TEST_CASE(clients_that_are_idle_for_longer_than_the_timeout_lose_their_connection) {
  Alone alone;
  Client& idle = alone.connect();
  Client& subscriber = alone.connect();
  Client& waiting = alone.connect();
  Client& reading = alone.connect();
  alone(subscriber, "SUBSCRIBE news");
  alone(waiting, "BLPOP nothing 0");
  alone.pass(10'000);
  alone("PING");
  alone.service.received(reading, 1);
  BOOST_TEST(alone("CONFIG SET timeout 5") == "+OK\r\n");
  BOOST_TEST(idle.is_lost);
  for (int i = 0; i < 20; ++i) {
    alone.pass(1000);
    BOOST_TEST(alone("PING") == "+PONG\r\n");
    alone.service.received(reading, 1);
    BOOST_TEST(alone.service.next_deadline().has_value());
  }
  BOOST_TEST(!alone.client().is_lost);
  BOOST_TEST(!reading.is_lost);
  BOOST_TEST(!subscriber.is_lost);
  BOOST_TEST(!waiting.is_lost);
}

BOOST_AUTO_TEST_CASE(long_replies_that_nobody_reads_are_bounded_and_their_clients_are_victims_soon) {
  // With a limit of 16 MB, 200 clients ask for 10 MB each. Three quarters of them do not read. The others
  // read what there is at the end of each turn, and must get everything.
  const std::string value(10 * kMegabyte, 'v');
  for (const bool is_alone : {true, false}) {
    Alone alone;
    Ordered ordered;
    Service& service = is_alone ? alone.service : ordered.service;
    Moment now = ordered.now;
    std::size_t most = 0, got = 0;
    std::vector<std::uint64_t> clients;
    const auto give = [&](Client& client, std::string_view lines) {
      const auto space = client.parser.space(lines.size());
      std::ranges::copy(lines, space.data());
      client.parser.received(lines.size());
      service.execute(client, now);
      most = std::max(most, service.memory_of_clients());
    };
    const auto turn = [&] {
      ordered.now += 100;
      now = ordered.now;
      service.end_turn(now);
      if (!is_alone) {
        ordered.execute();
        service.on_stable(ordered.executed);
        most = std::max(most, service.memory_of_clients());
      }
      for (const std::uint64_t number : service.take_changed()) {
        Client* const client = service.find(number);
        if (client == nullptr) continue;
        if (client->is_lost) {
          service.disconnect(*client);
        } else if (number % 4 == 0 && !client->output.empty()) {
          const std::size_t bytes = client->output.size();
          std::string().swap(client->output);
          got += bytes;
          service.sent(*client, bytes);
        }
      }
    };
    Client& first = service.connect("test", now);
    give(first, "CONFIG SET maxmemory-clients 16mb\r\n");
    give(first, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$10485760\r\n" + value + "\r\n");
    for (int i = 0; i < 3; ++i) turn();
    const std::uint64_t owner = first.number;
    most = 0;
    std::string().swap(first.output);
    service.sent(first, 1);
    for (int i = 0; i < 200; ++i) clients.push_back(service.connect("test", now).number);
    for (const std::uint64_t number : clients) give(*service.find(number), "GET big\r\n");
    const std::string reply = "$10485760\r\n" + value + "\r\n";
    const std::size_t readers = static_cast<std::size_t>(
        std::ranges::count_if(clients, [](std::uint64_t number) { return number % 4 == 0; }));
    const std::size_t before = got;
    // Another client is served all the time.
    for (int i = 0; i < 5000 && got - before < readers * reply.size(); ++i) {
      give(*service.find(owner), "PING\r\n");
      BOOST_REQUIRE(std::exchange(service.find(owner)->output, {}) == "+PONG\r\n");
      turn();
    }
    BOOST_TEST(got - before == readers * reply.size());
    BOOST_TEST(most < 80 * kMegabyte);
  }
}

BOOST_AUTO_TEST_CASE(a_transaction_with_long_replies_waits_for_space_and_a_short_read_does_not) {
  Alone alone;
  alone("CONFIG SET maxmemory-clients 1mb\r\nSET small s\r\nSET big " + std::string(60'000, 'b'));
  for (int i = 0; i < 20; ++i) alone("APPEND big " + std::string(60'000, 'b'));
  Client& slow = alone.connect();
  Client& other = alone.connect();
  const auto ask = [&](Client& client, std::string_view lines) {
    std::ranges::copy(lines, client.parser.space(lines.size()).data());
    client.parser.received(lines.size());
    alone.service.execute(client, 1'700'000'000'000);
  };
  ask(slow, "GET big\r\n");
  BOOST_TEST(slow.output.size() > kMegabyte);
  ask(other, "MULTI\r\nGET small\r\nGET big\r\nEXEC\r\n");
  BOOST_TEST(other.output == "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
  BOOST_TEST(other.waits_for_space);
  ask(alone.client(), "MULTI\r\nGET small\r\nEXEC\r\nSTRLEN big\r\nEXISTS big\r\n");
  BOOST_TEST(std::exchange(alone.client().output, {}) ==
             "+OK\r\n+QUEUED\r\n*1\r\n$1\r\ns\r\n:1260000\r\n:1\r\n");
  // The client reads.
  const std::size_t bytes = slow.output.size();
  std::string().swap(slow.output);
  alone.service.sent(slow, bytes);
  BOOST_TEST(alone("PING") == "+PONG\r\n");
  BOOST_TEST(other.output.size() > kMegabyte);
}

BOOST_AUTO_TEST_SUITE_END()
