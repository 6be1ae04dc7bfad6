// The service of several servers, with an order in memory. See servers.hpp.
#include "apps/replicated-kv/service/service.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>

#include "apps/replicated-kv/service/limits.hpp"
#include "tests/apps/replicated-kv/lone_servers.hpp"
#include "tests/apps/replicated-kv/servers.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(service_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

Result<void> run(std::uint64_t seed, Planted planted, std::uint64_t& deaths) {
  Servers servers(seed, 2 + seed % 3, 5, planted);
  for (int i = 0; i < 2000; ++i) {
    if (servers.below(250) == 0 && servers.alive() > 1)
      servers.kill(servers.below(2) == 0 ? servers.main() : servers.any_alive());
    if (servers.below(300) == 0 && servers.all.size() < 10) servers.join();
    servers.step();
  }
  servers.settle();
  servers.pass(1000);
  servers.settle();
  deaths += servers.deaths;
  for (const auto& one : servers.all) {
    if (!one->is_alive) continue;
    if (!planted.submits_again_what_was_ordered)
      BOOST_REQUIRE(content(one->service()) == content(servers.main().service()));
    // Nothing is kept for clients of servers that are gone.
    for (const std::uint64_t known : one->service().databases().watches().servers())
      BOOST_REQUIRE(std::ranges::any_of(
          servers.all, [&](const auto& other) { return other->is_alive && other->id == known; }));
  }
  if (const auto& wrong = servers.clients().violations; !wrong.empty())
    return fail(Errc::corrupt, wrong.front());
  return check_linearizable(servers.clients().history);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_clients_see_is_linearizable_whoever_dies_and_joins) {
  std::uint64_t deaths = 0, undecided = 0;
  const std::uint64_t first = from_environment("RDMC_FIRST_SEED", 1);
  const std::uint64_t worlds = from_environment("RDMC_WORLDS", all_or(300, 10));
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      const auto checked = run(seed, {}, deaths);
      // A few histories have so many requests without a reply that the search takes too long.
      if (!checked && checked.error().code == Errc::resource_limit && ++undecided <= worlds / 100) continue;
      BOOST_REQUIRE_MESSAGE(checked.has_value(), checked.error().what);
    }
  BOOST_TEST(deaths > worlds);
}

BOOST_AUTO_TEST_CASE(planted_faults_are_found) {
  for (const Planted planted : {Planted{.answers_before_stable = true}, Planted{.reads_anywhere = true},
                                Planted{.submits_again_what_was_ordered = true}}) {
    std::uint64_t deaths = 0, found = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed)
      if (const auto checked = run(seed, planted, deaths); !checked && checked.error().code == Errc::corrupt)
        ++found;
    BOOST_TEST(found > 0u);
    BOOST_TEST_MESSAGE(found);
  }
}

BOOST_AUTO_TEST_CASE(replies_come_in_the_order_of_the_requests) {
  Alone alone;
  BOOST_TEST(
      alone("SET a 1\r\nINCR a\r\nGET a\r\nPING\r\nNOPE x") ==
      "+OK\r\n:2\r\n$1\r\n2\r\n+PONG\r\n-ERR unknown command 'NOPE', with args beginning with: 'x' \r\n");
}

BOOST_AUTO_TEST_CASE(a_transaction_is_given_up_if_a_watched_key_has_changed) {
  Alone alone;
  BOOST_TEST(alone("SET a 1\r\nWATCH a\r\nSET a 2\r\nMULTI\r\nSET a 3\r\nEXEC\r\nGET a") ==
             "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$1\r\n2\r\n");
  BOOST_TEST(alone("WATCH a\r\nUNWATCH\r\nSET a 3\r\nMULTI\r\nGET a\r\nEXEC") ==
             "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n3\r\n");
  BOOST_TEST(alone("SET e 1 PX 100\r\nWATCH e") == "+OK\r\n+OK\r\n");
  alone.pass(200);
  BOOST_TEST(alone("MULTI\r\nPING\r\nEXEC") == "+OK\r\n+QUEUED\r\n*-1\r\n");
  BOOST_TEST(alone("MULTI\r\nNOPE\r\nEXEC")
                 .ends_with("-EXECABORT Transaction discarded because of previous errors.\r\n"));
  BOOST_TEST(alone("MULTI\r\nSELECT 3\r\nSET a x\r\nEXEC\r\nGET a\r\nSELECT 0\r\nGET a") ==
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n$1\r\nx\r\n+OK\r\n$1\r\n3\r\n");
}

BOOST_AUTO_TEST_CASE(a_select_has_an_effect_only_if_its_transaction_takes_place) {
  Alone alone;
  BOOST_TEST(alone("WATCH a\r\nSET a 1\r\nMULTI\r\nSELECT 5\r\nEXEC\r\nGET a") ==
             "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$1\r\n1\r\n");
}

BOOST_AUTO_TEST_CASE(a_wait_ends_in_time_also_after_an_outage) {
  Servers servers(1, 3, 1);
  Service& service = servers.all[0]->service();
  Client& client = service.connect("test", 0);
  const auto send = [&](Client& to, std::string_view line, Milliseconds time) {
    const auto space = to.parser.space(line.size());
    std::ranges::copy(line, space.data());
    to.parser.received(line.size());
    service.execute(to, time);
    service.end_turn(time);
  };
  const Milliseconds now = servers.now();
  send(client, "BLPOP nothing 1\r\n", now);
  for (int i = 0; i < 300; ++i) servers.step();
  BOOST_TEST(client.output.empty());
  // Nothing is ordered for five seconds, so the server gives up a write, and with it all that was not
  // submitted.
  service.on_status({}, now);
  Client& other = service.connect("other", 0);
  send(other, "SET a 1\r\n", now + 2500);
  for (Milliseconds passed = 2500; passed < 8000; passed += 100) service.end_turn(now + passed);
  service.on_status({.is_complete = true, .complete_replicas = 3, .stored_replicas = 3}, now + 8000);
  servers.pass(8000);
  for (int i = 0; i < 20'000 && client.output.empty(); ++i) servers.step();
  BOOST_TEST(client.output == "*-1\r\n");
}

BOOST_AUTO_TEST_CASE(a_transaction_has_a_limit) {
  Alone alone;
  BOOST_TEST(alone("MULTI") == "+OK\r\n");
  const std::string request = "SET k " + std::string(60'000, 'x');
  std::size_t queued = 0;
  while (alone(request) == "+QUEUED\r\n" && queued < 2000) ++queued;
  BOOST_TEST(queued > 1000u);
  BOOST_TEST(queued < 2000u);
  BOOST_TEST(alone("EXEC").starts_with("-EXECABORT "));
}

BOOST_AUTO_TEST_CASE(keys_expire_when_their_time_has_come) {
  Alone alone;
  BOOST_TEST(alone("SET a 1 PX 100\r\nPTTL a\r\nSET b 1\r\nEXPIRE b 1\r\nTTL b\r\nPERSIST b\r\nTTL b") ==
             "+OK\r\n:100\r\n+OK\r\n:1\r\n:1\r\n:1\r\n:-1\r\n");
  alone.pass(100);
  BOOST_TEST(alone("GET a\r\nDBSIZE") == "$-1\r\n:2\r\n");
  BOOST_TEST(alone("DBSIZE") == ":1\r\n");
}

BOOST_AUTO_TEST_CASE(requests_get_an_error_while_there_is_no_majority) {
  Servers servers(1, 3, 1);
  Server& server = *servers.all[0];
  Service& service = server.service();
  Client& client = service.connect("test", 0);
  const Milliseconds now = 1'700'000'100'000;
  const auto send = [&](std::string_view line, Milliseconds time) {
    return testing::send(service, client, line, time);
  };
  // A write that was submitted, and does not become stable.
  BOOST_TEST(send("SET a 1\r\n", now).empty());
  service.end_turn(now + 1000);
  BOOST_TEST(client.output.empty());
  BOOST_TEST(send("", now + 2000).starts_with("-UNCERTAIN "));
  BOOST_TEST(send("GET a\r\n", now + 2001).starts_with("-CLUSTERDOWN "));
  BOOST_TEST(send("PING\r\n", now + 2002) == "+PONG\r\n");
}

BOOST_AUTO_TEST_CASE(a_server_without_requests_says_that_it_is_not_available_when_it_would_refuse_them) {
  Ordered ordered;
  const auto is_available = [&] {
    const auto figures = ordered.service.figures();
    return std::ranges::find(figures, "rdmc_kv_is_available", &Figure::name)->value;
  };
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.done(client, "SET a 1\r\n") == "+OK\r\n");
  ordered.now += 10'000;
  ordered.service.end_turn(ordered.now);
  BOOST_TEST(is_available() == 1);
  for (const bool is_executed : {false, true}) {  // by this server, as the main does
    ordered.service.on_views(false);
    ordered.now += 1000;
    ordered.service.end_turn(ordered.now);
    if (is_executed) ordered.execute();
    ordered.service.end_turn(ordered.now);
    ordered.now += 1999;
    ordered.service.end_turn(ordered.now);
    BOOST_TEST(is_available() == 1);
    ++ordered.now;
    ordered.service.end_turn(ordered.now);
    BOOST_TEST(is_available() == 0);
    BOOST_TEST(ordered.send(client, "GET a\r\n").starts_with("-CLUSTERDOWN "));
    // The others execute the event after all.
    ordered.service.on_views(true);
    if (!is_executed) ordered.execute();
    ordered.service.on_stable(ordered.executed);
    BOOST_TEST(is_available() == 1);
  }
}

BOOST_AUTO_TEST_CASE(
    the_main_finds_out_without_requests_whether_events_become_stable_and_all_servers_see_it) {
  for (const bool is_main : {true, false}) {
    Ordered ordered;
    Service& service = ordered.service;
    service.on_status({.is_main = is_main, .is_complete = true, .complete_replicas = 2, .stored_replicas = 2},
                      ordered.now);
    const auto is_available = [&] {
      const auto figures = service.figures();
      return std::ranges::find(figures, "rdmc_kv_is_available", &Figure::name)->value;
    };
    service.end_turn(ordered.now);
    const std::size_t before = ordered.events.size();
    if (is_main) {
      ordered.execute();
      service.on_stable(ordered.executed);
      ordered.now += kProbeEvery;
      service.end_turn(ordered.now);
      BOOST_TEST_REQUIRE(ordered.events.size() == before + 1);
      ordered.execute();
    } else {
      // The disk of some server hangs when the event of another server has come.
      service.on_event({.position = ordered.executed++, .time = ordered.now * 1'000'000});
      BOOST_TEST(before == 0u);
    }
    service.end_turn(ordered.now);
    ordered.now += 1999;
    service.end_turn(ordered.now);
    BOOST_TEST(is_available() == 1);
    ++ordered.now;
    service.end_turn(ordered.now);
    BOOST_TEST(is_available() == 0);
    BOOST_TEST(service.take_warnings().size() == 1u);
    service.on_stable(ordered.executed);
    BOOST_TEST(is_available() == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_login_waits_for_no_longer_than_the_limit_also_if_the_outage_ends_and_begins_again) {
  Ordered ordered;
  Client& client = ordered.service.connect("test", 0);
  const ReplicaStatus down{.is_complete = true, .complete_replicas = 1, .stored_replicas = 1};
  const ReplicaStatus up{.is_complete = true, .complete_replicas = 2, .stored_replicas = 2};
  ordered.service.on_status(down, ordered.now);
  BOOST_TEST(ordered.send(client, "AUTH default secret\r\n").empty());
  ordered.now += 1500;
  BOOST_TEST(ordered.send(client, "").empty());
  ordered.service.on_status(up, ordered.now);
  ordered.service.on_status(down, ordered.now);
  ordered.now += 499;
  BOOST_TEST(ordered.send(client, "").empty());
  ordered.now += 1;
  BOOST_TEST(ordered.send(client, "").starts_with("-CLUSTERDOWN "));
}

BOOST_AUTO_TEST_CASE(a_long_turn_does_not_look_like_a_clock_that_is_behind) {
  Ordered ordered;
  // The request without a reply leads to another warning.
  const auto warnings_of_clocks = [&] {
    return std::ranges::count_if(ordered.service.take_warnings(),
                                 [](const std::string& what) { return what.contains("clock"); });
  };
  ordered.service.on_status(
      {.is_main = true, .is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, ordered.now);
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.send(client, "SET a 1\r\n").empty());
  // The event got its time while the server worked on others for 5 s.
  const Milliseconds begun = ordered.now;
  ordered.now += 5000;
  ordered.execute();
  ordered.service.end_turn(begun);
  ordered.service.end_turn(ordered.now);
  BOOST_TEST(warnings_of_clocks() == 0);
  // Now the clock of the host jumps back.
  ordered.service.end_turn({ordered.now - 3000, ordered.now + 1});
  BOOST_TEST(warnings_of_clocks() == 1);
}

BOOST_AUTO_TEST_CASE(
    a_server_that_has_just_started_says_that_it_starts_and_after_a_while_that_something_is_wrong) {
  Service service({.is_alone = false, .least_replicas = 2, .started_at = 1000});
  Client& client = service.connect("test", 1000);
  const auto send = [&](std::string_view line, Milliseconds time) {
    return testing::send(service, client, line, time);
  };
  service.begin_reading_disk();
  BOOST_TEST(send("GET a\r\n", 1000).starts_with("-LOADING "));
  BOOST_TEST(send("INFO\r\n", 1000) == "$43\r\n# Persistence\r\nloading:1\r\nasync_loading:0\r\n\r\n");
  BOOST_TEST(send("INFO replication\r\n", 1000).find("role") == std::string::npos);
  BOOST_TEST(send("AUTH default secret\r\n", 1000).starts_with("-LOADING "));
  // The time begins when the disk has been read.
  service.end_reading_disk(101'000);
  service.on_status({}, 102'000);
  BOOST_TEST(send("GET a\r\n", 102'000).empty());
  BOOST_TEST(send("", 104'000).starts_with("-LOADING "));
  BOOST_TEST(send("INFO\r\n", 104'000).starts_with("$"));
  BOOST_TEST(send("GET a\r\n", 130'999).starts_with("-LOADING "));
  BOOST_TEST(send("INFO persistence\r\n", 130'999).find("\r\nloading:1\r\n") != std::string::npos);
  BOOST_TEST(send("GET a\r\n", 131'000).starts_with("-CLUSTERDOWN "));
  BOOST_TEST(send("INFO persistence\r\n", 131'000).find("\r\nloading:0\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(while_the_disk_is_read_no_client_can_make_the_server_keep_much) {
  Service service({.is_alone = false, .least_replicas = 2});
  const auto send = [&](Client& client, std::string_view bytes) {
    const auto space = client.parser.space(bytes.size());
    std::ranges::copy(bytes, space.data());
    client.parser.received(bytes.size());
    service.execute(client, 1000);
    return std::exchange(client.output, {});
  };
  service.begin_reading_disk();
  Client& early = service.connect("early", 1000);
  BOOST_TEST(send(early, "*2\r\n$3\r\nGET\r\n$16385\r\n").starts_with("-ERR Protocol error"));
  BOOST_TEST(early.is_closing);
  service.end_reading_disk(1000);
  Client& late = service.connect("late", 1000);
  BOOST_TEST(send(late, "*2\r\n$3\r\nGET\r\n$16385\r\n").empty());
  BOOST_TEST(!late.is_closing);
}

BOOST_AUTO_TEST_CASE(a_server_that_waits_for_earlier_leases_starts_and_submits_no_request) {
  Ordered ordered;
  ReplicaStatus status{.is_complete = true, .complete_replicas = 2, .stored_replicas = 2};
  status.awaits_earlier_leases = true;
  Service service({.is_alone = false, .least_replicas = 2, .started_at = ordered.now});
  service.begin(ordered, 1);
  service.on_status(status, ordered.now);
  const auto send = [&](Client& client, std::string_view lines) {
    const auto space = client.parser.space(lines.size());
    std::ranges::copy(lines, space.data());
    client.parser.received(lines.size());
    service.execute(client, ordered.now);
    service.end_turn(ordered.now);
    return std::exchange(client.output, {});
  };
  Client& early = service.connect("test", ordered.now);
  BOOST_TEST(send(early, "SET a 1\r\n").empty());
  ordered.now += 2000;
  BOOST_TEST(send(early, "").starts_with("-LOADING "));
  BOOST_TEST(send(early, "INFO replication\r\n").contains("rdmc_is_available:0\r\n"));
  BOOST_TEST(service.take_news().empty());
  status.awaits_earlier_leases = false;
  service.on_status(status, ordered.now);
  BOOST_TEST(send(early, "INFO replication\r\n").contains("rdmc_is_available:1\r\n"));
  BOOST_TEST(ordered.events.empty());
  BOOST_TEST(send(early, "SET a 1\r\n").empty());
  BOOST_TEST(ordered.events.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_request_that_was_executed_and_does_not_become_stable_gets_an_error) {
  Ordered ordered;
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.send(client, "SET a 1\r\nINCR a\r\n").empty());
  ordered.execute();
  ordered.service.on_status({.is_complete = true, .complete_replicas = 1, .stored_replicas = 1}, ordered.now);
  ordered.now += 2000;
  const std::string replies = ordered.send(client, "PING\r\n");
  BOOST_TEST(replies.starts_with("-UNCERTAIN "));
  BOOST_TEST(replies.find("\r\n-UNCERTAIN ") != std::string::npos);
  BOOST_TEST(replies.ends_with("\r\n+PONG\r\n"));
}

BOOST_AUTO_TEST_CASE(a_transaction_is_given_up_if_the_server_has_left_the_order_since_watch) {
  Ordered ordered;
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.done(client, "WATCH a\r\n") == "+OK\r\n");
  ordered.service.end(ordered.now, Service::AtEnd::drop_state);
  ordered.take_part(2);
  BOOST_TEST(ordered.done(client, "MULTI\r\nINCR a\r\nEXEC\r\n") == "+OK\r\n+QUEUED\r\n*-1\r\n");
  BOOST_TEST(ordered.done(client, "MULTI\r\nINCR a\r\nEXEC\r\n") == "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
}

BOOST_AUTO_TEST_CASE(a_transaction_that_was_refused_ends_the_watch_of_its_client) {
  Ordered ordered;
  Client& client = ordered.service.connect("test", 0);
  BOOST_TEST(ordered.done(client, "WATCH a\r\nSET a 1\r\n") == "+OK\r\n+OK\r\n");
  ordered.is_full = true;
  BOOST_TEST(ordered.send(client, "MULTI\r\nINCR a\r\nEXEC\r\n") == "+OK\r\n+QUEUED\r\n");
  ordered.service.on_status({.is_complete = true, .complete_replicas = 1, .stored_replicas = 1}, ordered.now);
  ordered.now += 2000;
  BOOST_TEST(ordered.send(client, "").starts_with("-CLUSTERDOWN "));
  ordered.is_full = false;
  ordered.service.on_status({.is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, ordered.now);
  BOOST_TEST(ordered.done(client, "MULTI\r\nINCR a\r\nEXEC\r\n") == "+OK\r\n+QUEUED\r\n*1\r\n:2\r\n");
}

BOOST_AUTO_TEST_CASE(a_request_waits_for_a_short_outage) {
  Servers servers(1, 3, 1);
  Service& service = servers.all[0]->service();
  Client& client = service.connect("test", 0);
  const Milliseconds now = 1'700'000'100'000;
  service.on_status({}, now);
  const auto space = client.parser.space(100);
  std::memcpy(space.data(), "INCR b\r\n", 8);
  client.parser.received(8);
  service.execute(client, now);
  service.end_turn(now + 1000);
  BOOST_TEST(client.output.empty());
  service.on_status({.is_complete = true, .complete_replicas = 3, .stored_replicas = 3}, now + 1500);
  service.end_turn(now + 1500);
  for (int i = 0; i < 10'000 && client.output.empty(); ++i) servers.step();
  BOOST_TEST(client.output == ":1\r\n");
}

BOOST_AUTO_TEST_CASE(a_request_that_is_longer_than_an_event_is_executed_whole) {
  Servers servers(3, 3, 1);
  Server& server = *servers.all[1];
  Client& client = server.service().connect("test", 0);
  const std::string value(5 << 20, 'v');
  const std::string request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + std::to_string(value.size()) + "\r\n" +
                              value + "\r\n*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n";
  const auto space = client.parser.space(request.size());
  std::memcpy(space.data(), request.data(), request.size());
  client.parser.received(request.size());
  const Milliseconds now = 1'700'000'000'000;
  server.service().execute(client, now);
  for (int i = 0; i < 200'000 && client.output.size() < 10; ++i) servers.step();
  BOOST_TEST(client.output == "+OK\r\n:" + std::to_string(value.size()) + "\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
