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

BOOST_AUTO_TEST_SUITE(access_order_test)

using namespace rdmc;
using namespace rdmc::kv;

namespace {

constexpr Milliseconds kNow = 1'700'000'000'000;

/// Gives the requests of one line each to a client. Returns what it gets at once.
std::string send(Service& service, Client& client, std::string_view lines) {
  const auto space = client.parser.space(lines.size() + 2);
  std::ranges::copy(lines, space.data());
  std::memcpy(space.data() + lines.size(), "\r\n", 2);
  client.parser.received(lines.size() + 2);
  service.execute(client, kNow);
  service.end_turn(kNow);
  return std::exchange(client.output, {});
}

/// Ends the connections that the service wants to end, as the sockets do.
void end_lost(Service& service) {
  for (const std::uint64_t number : service.take_changed())
    if (Client* const client = service.find(number);
        client != nullptr && client->is_closing && (client->is_lost || client->answers.empty()))
      service.disconnect(*client);
}

class OneOfSeveral final : public Order {
 public:
  explicit OneOfSeveral(std::uint64_t id) {
    service.begin(*this, id);
    service.on_status({.is_complete = true, .complete_replicas = 3, .stored_replicas = 3}, kNow);
  }
  Result<std::uint64_t> submit(std::span<const std::byte> event) override {
    unordered.emplace_back(event.begin(), event.end());
    return ++submitted;
  }
  bool may_answer(std::uint64_t) const override { return false; }

  Service service{{.is_alone = false, .least_replicas = 2}};
  std::deque<Bytes> unordered;
  std::uint64_t submitted = 0, ordered = 0;
};

/// Servers with an order that a test decides.
class Several {
 public:
  explicit Several(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) all.push_back(std::make_unique<OneOfSeveral>(i + 1));
  }
  Service& at(std::size_t server) { return all[server]->service; }
  /// Takes the oldest event of a server into the order. Returns false if there is none.
  bool order_one(std::size_t server) {
    OneOfSeveral& from = *all[server];
    if (from.unordered.empty()) return false;
    const Bytes bytes = std::move(from.unordered.front());
    from.unordered.pop_front();
    ++from.ordered;
    for (const auto& one : all)
      one->service.on_event({.position = position,
                             .own_number = one.get() == &from ? from.ordered : 0,
                             .time = kNow * 1'000'000,
                             .random = position,
                             .bytes = bytes});
    ++position;
    for (const auto& one : all) {
      one->service.on_stable(position);
      one->service.end_turn(kNow);
      end_lost(one->service);
    }
    return true;
  }
  void order_all() {
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (std::size_t i = 0; i < all.size(); ++i) is_done = !order_one(i) && is_done;
    }
  }
  /// Sends, orders everything, and returns the replies.
  std::string done(std::size_t server, Client& client, std::string_view lines) {
    std::string replies = send(at(server), client, lines);
    order_all();
    return replies + std::exchange(client.output, {});
  }

  std::vector<std::unique_ptr<OneOfSeveral>> all;
  std::uint64_t position = 0;
};

Bytes content_of(Service& service) {
  Bytes bytes;
  service.save([&](std::vector<std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

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
  service.end(kNow);
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
