// What one client may make a server keep: names, watched keys, subscriptions, keys that it waits for, and
// long lines.
#include <boost/test/unit_test.hpp>

#include <string>

#include "tests/apps/replicated-kv/lone_servers.hpp"
#include "tests/apps/replicated-kv/several_servers.hpp"

BOOST_AUTO_TEST_SUITE(client_bounds_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

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

BOOST_AUTO_TEST_SUITE_END()
