// The limits of a server: memory of clients, time limits, and what is left after an outage.
#include "apps/replicated-kv/service/client_memory.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>

#include "apps/replicated-kv/service/output_limits.hpp"
#include "tests/apps/replicated-kv/lone_servers.hpp"

BOOST_AUTO_TEST_SUITE(limits_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

constexpr std::size_t kMegabyte = 1 << 20;

ClientMemory::Need sending(std::size_t bytes) {
  return {.bytes = bytes, .is_sending = true};
}
ClientMemory::Need reading(std::size_t bytes) {
  return {.bytes = bytes};
}

}  // namespace

BOOST_AUTO_TEST_CASE(clients_take_turns_while_all_together_need_too_much) {
  ClientMemory memory;
  memory.set_limit(10 * kMegabyte);
  for (std::uint64_t client = 1; client <= 4; ++client) memory.update(client, sending(2 * kMegabyte), 0);
  for (std::uint64_t client = 1; client <= 4; ++client) BOOST_TEST(memory.may_send(client));
  memory.update(3, sending(5 * kMegabyte), 0);
  BOOST_TEST(memory.is_exceeded());
  for (std::uint64_t client = 1; client <= 4; ++client) BOOST_TEST(!memory.may_send(client));
  // A client that needs little may send. The others come in the order in which they have something to send.
  // The first one sends nothing, and is passed over.
  memory.update(5, sending(1000), 0);
  BOOST_TEST(memory.may_send(5));
  memory.want_to_send(3, 0);
  memory.want_to_send(2, 0);
  BOOST_TEST(memory.may_send(3));
  BOOST_TEST(!memory.may_send(2));
  BOOST_TEST(memory.waits_for_turn(2));
  // It goes on beyond the limit until its request is complete.
  memory.update(3, sending(6 * kMegabyte), 0);
  BOOST_TEST(memory.may_send(3));
  static_cast<void>(memory.take_change());
  memory.update(3, reading(6 * kMegabyte), 0);
  BOOST_TEST(memory.take_change());
  BOOST_TEST(memory.may_send(2));
  // The one whose turn it is loses it if it does nothing.
  memory.want_to_send(4, 0);
  memory.look(ClientMemory::kTurn - 1);
  BOOST_TEST(memory.may_send(2));
  memory.look(ClientMemory::kTurn);
  BOOST_TEST(memory.may_send(4));
  BOOST_TEST(!memory.may_send(2));
  memory.forget(3, ClientMemory::kTurn);
  BOOST_TEST(memory.take_change());
  for (const std::uint64_t client : {1, 2, 4}) BOOST_TEST(memory.may_send(client));
}

BOOST_AUTO_TEST_CASE(only_a_client_that_could_do_something_and_does_not_is_a_victim) {
  ClientMemory memory;
  memory.set_limit(kMegabyte);
  memory.update(1, sending(kMegabyte), 0);
  memory.update(2, sending(4 * kMegabyte), 0);
  memory.update(3, {.bytes = 8 * kMegabyte, .waits_for_us = true}, 0);
  memory.update(4, reading(2 * kMegabyte), 0);
  memory.want_to_send(1, 0);
  memory.want_to_send(2, 0);  // waits for its turn
  BOOST_TEST(!memory.victim(ClientMemory::kPatience - 1).has_value());
  BOOST_TEST(memory.victim(ClientMemory::kPatience).value() == 4u);
  // It reads, so the one that has its turn and does nothing is the victim.
  memory.progress(4, ClientMemory::kProgress, ClientMemory::kPatience - 1);
  BOOST_TEST(memory.victim(ClientMemory::kPatience).value() == 1u);
  memory.forget(1, ClientMemory::kPatience);
  // The next one has its time, too.
  BOOST_TEST(memory.may_send(2));
  BOOST_TEST(!memory.victim(ClientMemory::kPatience).has_value());
  // A few bytes now and then are no progress.
  memory.progress(2, 1, 2 * ClientMemory::kPatience - 2);
  BOOST_TEST(memory.victim(2 * ClientMemory::kPatience).value() == 2u);
}

BOOST_AUTO_TEST_CASE(many_long_replies_that_are_not_read_end_the_patience) {
  ClientMemory memory;
  memory.set_limit(16 * kMegabyte);
  const auto unread = [](std::size_t bytes) { return ClientMemory::Need{.bytes = bytes, .unread = bytes}; };
  // One reply may have any length.
  memory.update(1, unread(100 * kMegabyte), 0);
  BOOST_TEST(!memory.victim(ClientMemory::kTurn).has_value());
  memory.update(2, unread(10 * kMegabyte), 0);
  BOOST_TEST(!memory.victim(ClientMemory::kTurn).has_value());
  memory.update(3, unread(10 * kMegabyte), 0);
  memory.update(4, {.bytes = 200 * kMegabyte, .is_sending = true}, 0);
  BOOST_TEST(!memory.victim(ClientMemory::kTurn - 1).has_value());
  BOOST_TEST(memory.victim(ClientMemory::kTurn).value() == 1u);
  // A client that reads is no victim, and the time of a client begins when it has something to read.
  memory.progress(1, ClientMemory::kProgress, ClientMemory::kTurn);
  memory.update(2, reading(kMegabyte), 0);
  memory.update(2, unread(10 * kMegabyte), ClientMemory::kTurn);
  BOOST_TEST(memory.victim(ClientMemory::kTurn).value() == 3u);
}

BOOST_AUTO_TEST_CASE(memory_of_clients_follows_random_changes) {
  // The total is that of all large clients, and as long as someone wants to send, someone may.
  std::uint64_t state = 1;
  const auto below = [&](std::uint64_t most) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % most;
  };
  ClientMemory memory;
  memory.set_limit(3 * kMegabyte);
  std::map<std::uint64_t, ClientMemory::Need> needs;
  for (Milliseconds now = 0; now < 20'000; ++now) {
    const std::uint64_t client = 1 + below(20);
    if (below(10) == 0) {
      memory.forget(client, now);
      needs.erase(client);
    } else {
      const ClientMemory::Need need{.bytes = below(2) == 0 ? below(kMegabyte) : below(ClientMemory::kSmall),
                                    .is_sending = below(2) == 0};
      needs[client] = need;
      memory.update(client, need, now);
      if (need.is_sending) memory.want_to_send(client, now);
    }
    memory.look(now);
    std::size_t total = 0;
    bool waits = false, may = false;
    for (const auto& [number, need] : needs) {
      if (need.bytes > ClientMemory::kSmall) total += need.bytes;
      waits = waits || memory.waits_for_turn(number);
      may = may || (need.bytes > ClientMemory::kSmall && memory.may_send(number));
    }
    BOOST_REQUIRE(memory.total() == total);
    BOOST_REQUIRE(memory.is_exceeded() == (total > 3 * kMegabyte));
    BOOST_REQUIRE(may || !waits);
  }
}

BOOST_AUTO_TEST_CASE(a_request_has_a_limit_of_bytes) {
  RequestParser parser({.request_bytes = 1000});
  const auto put = [&](std::string_view bytes) {
    std::ranges::copy(bytes, parser.space(bytes.size()).data());
    parser.received(bytes.size());
    return parser.next();
  };
  const std::string word = "$400\r\n" + std::string(400, 'x') + "\r\n";
  BOOST_TEST((put("*2\r\n" + word + word) == RequestParser::Status::complete));
  BOOST_TEST((put("*3\r\n" + word + word) == RequestParser::Status::incomplete));
  // The parser knows it before the bytes of the word come.
  BOOST_TEST((put("$400\r\n") == RequestParser::Status::broken));
  BOOST_TEST(parser.is_too_long());
  BOOST_TEST(parser.error() == "the request is longer than client-query-buffer-limit");
}

BOOST_AUTO_TEST_CASE(a_parser_gives_the_memory_of_a_long_request_back) {
  RequestParser parser({});
  const std::string request = "*1\r\n$3000000\r\n" + std::string(3'000'000, 'x') + "\r\n*1\r\n$4\r\nPI";
  std::ranges::copy(request, parser.space(request.size()).data());
  parser.received(request.size());
  BOOST_TEST((parser.next() == RequestParser::Status::complete));
  BOOST_TEST((parser.next() == RequestParser::Status::incomplete));
  parser.shrink();
  BOOST_TEST(parser.memory() < 10'000u);
  std::ranges::copy(std::string_view("NG\r\n"), parser.space(4).data());
  parser.received(4);
  BOOST_TEST((parser.next() == RequestParser::Status::complete));
  BOOST_TEST(parser.words().at(0) == "PING");
}

BOOST_AUTO_TEST_CASE(a_client_that_asks_for_too_much_loses_its_connection_and_the_write_takes_effect) {
  Alone alone;
  BOOST_TEST(alone("CONFIG SET client-output-buffer-limit \"normal 100000 0 0\"") == "+OK\r\n");
  const std::string value(60'000, 'v');
  BOOST_TEST(alone("SET a " + value) == "+OK\r\n");
  alone("MULTI\r\nGET a\r\nGET a\r\nINCR n\r\nGET a\r\nEXEC");
  BOOST_TEST(alone.client().is_lost);
  BOOST_TEST(alone.client().output.size() < 200'000u);
  Client& other = alone.connect();
  BOOST_TEST(alone(other, "GET n") == "$1\r\n1\r\n");
  BOOST_TEST(alone(other, "INFO stats").contains("client_output_buffer_limit_disconnections:1\r\n"));
}

BOOST_AUTO_TEST_CASE(the_replies_of_reads_in_batches_are_limited) {
  // The server is not the main, so reads are events. A client asks for much more than it may have.
  Ordered ordered;
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.done(client, "SET a " + std::string(50'000, 'v') + "\r\n") == "+OK\r\n");
  std::string requests;
  constexpr std::size_t kReads = 20'000;
  for (std::size_t i = 0; i < kReads; ++i) requests += "GET a\r\n";
  std::size_t got = ordered.send(client, requests).size(), most = 0;
  for (int i = 0; i < 10'000 && got < kReads * 50'000; ++i) {
    ordered.execute();
    ordered.service.on_stable(ordered.executed);
    most = std::max(most, client.output.size() + client.answer_bytes);
    got += std::exchange(client.output, {}).size();
    if (client.is_stopped && !ordered.service.is_full(client)) ordered.service.execute(client, ordered.now);
    ordered.service.end_turn(ordered.now);
  }
  BOOST_TEST(got > kReads * 50'000);
  BOOST_TEST(most < 64 * kMegabyte);
  BOOST_TEST(!client.is_lost);
}

BOOST_AUTO_TEST_CASE(limits_of_time_do_not_follow_the_wall_clock) {
  Ordered ordered;
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.send(client, "SET a 1\r\n").empty());
  const Milliseconds hour = 3'600'000;
  ordered.service.end_turn(Moment(ordered.now + hour, ordered.now + 1));
  BOOST_TEST(client.output.empty());
  ordered.service.end_turn(Moment(ordered.now - hour, ordered.now + 2000));
  BOOST_TEST(client.output.starts_with("-UNCERTAIN "));
}

BOOST_AUTO_TEST_CASE(a_server_without_majority_does_not_ask_to_be_called_at_once_again_and_again) {
  Ordered ordered;
  ordered.service.on_status(
      {.is_main = true, .is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, ordered.now);
  Client& client = ordered.service.connect("test", ordered.now);
  Client& other = ordered.service.connect("test", ordered.now);
  BOOST_TEST(ordered.done(client, "SET a 1 PX 100\r\n") == "+OK\r\n");
  for (const bool is_complete : {true, false}) {
    ordered.service.on_status(
        {.is_main = true, .is_complete = is_complete, .complete_replicas = 1, .stored_replicas = 1},
        ordered.now);
    std::size_t calls = 0;
    ordered.send(other, "SET b 1\r\n");
    for (const Milliseconds end = ordered.now + 5000; ordered.now < end; ++calls) {
      ordered.service.end_turn(ordered.now);
      const auto deadline = ordered.service.next_deadline();
      ordered.now = std::clamp(deadline.value_or(ordered.now + 50), ordered.now, ordered.now + 50);
      BOOST_REQUIRE(calls < 500u);
    }
  }
}

BOOST_AUTO_TEST_CASE(messages_do_not_wait_for_a_command_that_waits_for_a_key) {
  Ordered ordered;
  Client& subscriber = ordered.service.connect("test", ordered.now);
  Client& publisher = ordered.service.connect("test", ordered.now);
  ordered.done(subscriber, "HELLO 3\r\nSUBSCRIBE news\r\n");
  BOOST_TEST(ordered.send(subscriber, "BLPOP nothing 0\r\n").empty());
  BOOST_TEST(ordered.done(publisher, "PUBLISH news one\r\n") == ":1\r\n");
  BOOST_TEST(ordered.done(publisher, "PUBLISH news two\r\n") == ":1\r\n");
  const std::string head = ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\n";
  BOOST_TEST(std::exchange(subscriber.output, {}) == head + "one\r\n" + head + "two\r\n");
  BOOST_TEST(ordered.done(publisher, "RPUSH nothing x\r\n") == ":1\r\n");
  BOOST_TEST(subscriber.output == "*2\r\n$7\r\nnothing\r\n$1\r\nx\r\n");
}

BOOST_AUTO_TEST_CASE(a_server_that_takes_part_again_has_no_state_of_its_own) {
  Ordered ordered, fresh;
  Client& client = ordered.service.connect("test", ordered.now);
  BOOST_TEST(ordered.done(client, "SET a 1\r\n") == "+OK\r\n");
  ordered.service.end(ordered.now, Service::AtEnd::drop_state);
  // All servers have ended, and begin again.
  BOOST_TEST(content(ordered.service) == content(fresh.service));
}

BOOST_AUTO_TEST_CASE(a_server_with_a_log_keeps_the_state_that_its_log_has) {
  Ordered ordered;
  Client& client = ordered.service.connect("test", ordered.now);
  ordered.done(client, "SET a 1\r\nSETRANGE b 3 x\r\nCONFIG SET maxmemory 1gb\r\n");
  const Bytes before = content(ordered.service);
  ordered.service.end(ordered.now, Service::AtEnd::keep_state);
  BOOST_TEST(content(ordered.service) == before);
  ordered.take_part(2);
  BOOST_TEST(ordered.done(client, "GET a\r\n") == "$1\r\n1\r\n");
}

BOOST_AUTO_TEST_CASE(a_client_is_unblocked_once) {
  Ordered ordered;
  Client& waiting = ordered.service.connect("test", ordered.now);
  Client& other = ordered.service.connect("test", ordered.now);
  ordered.done(waiting, "BLPOP nothing 0\r\n");
  const std::string unblock = "CLIENT UNBLOCK " + std::to_string(waiting.number) + "\r\n";
  BOOST_TEST(ordered.send(other, unblock + unblock) == ":1\r\n:0\r\n");
  ordered.execute();
  ordered.service.on_stable(ordered.executed);
  BOOST_TEST(waiting.output == "*-1\r\n");
}

BOOST_AUTO_TEST_CASE(the_limits_of_output_have_the_text_of_redis) {
  OutputLimits limits;
  BOOST_TEST(limits.set("normal 1mb 2mb 60 replica 3mb 4mb 70 pubsub 5mb 6mb 80").has_value());
  BOOST_TEST(limits.text() == "normal 1048576 2097152 60 slave 3145728 4194304 70 pubsub 5242880 6291456 80");
  for (const std::string_view wrong : {"wrong number", "invalid_class 10mb 10mb 60", "normal 10mbs 10mb 60",
                                       "replica 10mb 10mbs 60", "pubsub 10mb 10mb 60s"})
    BOOST_TEST(!limits.set(wrong).has_value());
}

BOOST_AUTO_TEST_CASE(the_events_of_a_log_say_nothing_about_the_clock_of_this_run) {
  constexpr Milliseconds kStart = 5'000'000;
  Service service({.started_at = kStart});
  service.on_event({.position = 0, .time = kNow * 1'000'000, .random = 1, .bytes = {}});
  service.end_turn({kNow + 10, kStart + 10});
  BOOST_TEST(service.take_warnings().empty());
}

BOOST_AUTO_TEST_CASE(a_clock_that_has_jumped_ahead_and_back_does_not_keep_keys_alive) {
  constexpr Milliseconds kDay = 86'400'000;
  Service service({.is_alone = true});
  Client& client = service.connect("client", Moment{kNow, 0});
  const auto reply_to = [&](std::string_view line, Moment now) {
    const auto space = client.parser.space(line.size() + 2);
    std::ranges::copy(line, space.data());
    std::memcpy(space.data() + line.size(), "\r\n", 2);
    client.parser.received(line.size() + 2);
    service.execute(client, now);
    service.end_turn(now);
    return std::exchange(client.output, {});
  };
  BOOST_TEST(reply_to("SET a 1", {kNow, 0}) == "+OK\r\n");
  BOOST_TEST(reply_to("SET b 1", {kNow + kDay, 10}) == "+OK\r\n");
  BOOST_TEST(reply_to("SET c 1 EX 2", {kNow + 20, 20}) == "+OK\r\n");
  BOOST_TEST(service.take_warnings().size() == 1u);
  BOOST_TEST(reply_to("GET c", {kNow + 1000, 1000}) == "$1\r\n1\r\n");
  BOOST_TEST(reply_to("GET c", {kNow + 2200, 2200}) == "$-1\r\n");
  BOOST_TEST(service.take_warnings().empty());
}

BOOST_AUTO_TEST_SUITE_END()
