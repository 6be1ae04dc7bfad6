#include "tests/apps/replicated-kv/servers.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

namespace rdmc::kv::testing {

namespace {

using Kind = Step::Kind;

constexpr std::uint64_t kFirstTime = 1'700'000'000'000;

std::string encoded(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

/// Reads one reply of RESP2 from the front of `bytes`. Returns false if it is not complete. Arrays become
/// their elements.
bool read_reply(std::string_view& bytes, std::vector<std::string>& replies, bool& is_null) {
  const auto end = bytes.find("\r\n");
  if (end == std::string_view::npos) return false;
  const char kind = bytes[0];
  const std::string line(bytes.substr(1, end - 1));
  std::string_view rest = bytes.substr(end + 2);
  if (kind == '$' && line != "-1") {
    const auto size = static_cast<std::size_t>(std::stoll(line));
    if (rest.size() < size + 2) return false;
    replies.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size + 2);
  } else if (kind == '*' && line != "-1") {
    for (auto count = std::stoll(line); count > 0; --count)
      if (!read_reply(rest, replies, is_null)) return false;
  } else if (line == "-1" && (kind == '$' || kind == '*')) {
    is_null = kind == '*';
    replies.emplace_back();
  } else {
    replies.push_back(kind == '-' ? "-" + line : line);
  }
  bytes = rest;
  return true;
}

}  // namespace

Server::Server(Servers& its_servers, std::uint64_t server_id, const ServiceOptions& options)
    : servers(its_servers), id(server_id), service(options) {
  service.begin(*this, id);
}

Result<std::uint64_t> Server::submit(std::span<const std::byte> event) {
  if (servers.below(20) == 0) return fail(Errc::would_block, "full");
  unordered.push_back({id, ++submitted, {event.begin(), event.end()}});
  return submitted;
}

bool Server::may_answer(std::uint64_t applied) const {
  if (servers.planted.reads_anywhere) return true;
  return servers.main_ == id && applied == servers.log_.size();
}

Servers::Servers(std::uint64_t seed, std::size_t count, std::size_t clients, Planted plants)
    : planted(plants), random_(seed) {
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(
        std::make_unique<Server>(*this, ++last_server_, ServiceOptions{.is_alone = false, .seed = seed + i}));
  tell_status();
  for (std::size_t i = 0; i < clients; ++i) clients_.push_back({.number = i});
}

std::size_t Servers::alive() const {
  return static_cast<std::size_t>(std::ranges::count_if(all, [](const auto& one) { return one->is_alive; }));
}

Server& Servers::any_alive() {
  for (;;)
    if (Server& one = *all[below(all.size())]; one.is_alive) return one;
}

Server& Servers::main() const {
  return **std::ranges::find(all, main_, [](const auto& one) { return one->id; });
}

Milliseconds Servers::now() const {
  return static_cast<Milliseconds>(kFirstTime) + now_;
}

void Servers::tell_status() {
  std::vector<std::uint64_t> servers;
  for (const auto& one : all)
    if (one->is_alive) servers.push_back(one->id);
  for (const auto& one : all)
    if (one->is_alive)
      one->service.on_status({.is_main = one->id == main_ || planted.reads_anywhere,
                              .is_complete = true,
                              .complete_replicas = static_cast<std::uint32_t>(alive())},
                             static_cast<Milliseconds>(kFirstTime) + now_);
  for (const auto& one : all) one->service.on_servers(servers);
}

void Servers::kill(Server& victim) {
  ++deaths;
  victim.is_alive = false;
  for (TestClient& client : clients_)
    if (client.server == &victim) lose(client);
  if (victim.id == main_) {
    // Events that no survivor has may be lost. Their servers submit them again.
    std::size_t least = 0;
    for (const auto& one : all)
      if (one->is_alive) least = std::max(least, one->received);
    for (std::size_t position = log_.size(); position > least;) {
      Event& lost = log_[--position];
      for (const auto& one : all)
        if (one->id == lost.server && one->is_alive) one->unordered.push_front(lost);
    }
    log_.resize(least);
    main_ = any_alive().id;
  }
  tell_status();
}

void Servers::join() {
  Server& donor = any_alive();
  auto joined = std::make_unique<Server>(*this, ++last_server_,
                                         ServiceOptions{.is_alone = false, .seed = last_server_});
  Bytes state;
  donor.service.save(
      [&](std::vector<std::byte> piece) { state.insert(state.end(), piece.begin(), piece.end()); });
  BOOST_REQUIRE(joined->service.on_load({.step = LoadState::Step::begin}));
  for (std::span<const std::byte> rest = state; !rest.empty();) {
    const auto piece = rest.first(std::min<std::size_t>(rest.size(), 1 + below(1000)));
    BOOST_REQUIRE(joined->service.on_load({.step = LoadState::Step::bytes, .bytes = piece}));
    rest = rest.subspan(piece.size());
  }
  BOOST_REQUIRE(joined->service.on_load({.step = LoadState::Step::end, .position = donor.executed}));
  joined->executed = joined->stable = donor.executed;
  joined->received = log_.size();  // It gets everything that is in the order.
  all.push_back(std::move(joined));
  tell_status();
}

void Servers::step() {
  now_ += static_cast<std::int64_t>(below(3));
  Server& server = any_alive();
  switch (below(7)) {
    case 0: return order_one(server);
    case 4: return receive_one(server);
    case 1: return execute_one(server);
    case 2: return tell_stable(server);
    case 3: return server.service.end_turn(static_cast<Milliseconds>(kFirstTime) + now_);
    default: {
      TestClient& client = clients_[below(clients_.size())];
      if (client.server == nullptr) {
        client.server = &any_alive();
        client.connection = ++last_connection_;
        client.client = &client.server->service.connect("test", 0);
      }
      read_replies(client);
      if (client.expected.empty()) act(client);
    }
  }
}

void Servers::order_one(Server& server) {
  if (server.unordered.empty()) return;
  Event next = std::move(server.unordered.front());
  server.unordered.pop_front();
  next.time = (static_cast<std::int64_t>(kFirstTime) + now_) * 1'000'000;
  next.random = random_();
  if (planted.submits_again_what_was_ordered && below(20) == 0) log_.push_back(next);
  log_.push_back(std::move(next));
}

void Servers::receive_one(Server& server) {
  server.received += server.received < log_.size();
}

void Servers::execute_one(Server& server) {
  if (server.executed == server.received) return;
  const Event& next = log_[server.executed];
  server.service.on_event({.position = server.executed,
                           .own_number = next.server == server.id ? next.number : 0,
                           .time = next.time,
                           .random = next.random,
                           .bytes = next.bytes});
  ++server.executed;
  if (planted.answers_before_stable) server.service.on_stable(server.executed);
}

void Servers::tell_stable(Server& server) {
  std::size_t stable = log_.size();
  for (const auto& one : all)
    if (one->is_alive) stable = std::min(stable, one->received);
  stable = std::max(stable, server.stable);
  server.stable += stable == server.stable ? 0 : 1 + below(stable - server.stable);
  server.service.on_stable(server.stable);
}

// -- The clients --

void Servers::send(TestClient& client, const std::vector<std::string>& words,
                   std::optional<Operation> operation, const std::string& expected) {
  const std::string bytes = encoded(words);
  const auto space = client.client->parser.space(bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  client.client->parser.received(bytes.size());
  client.expected.push_back(expected);
  if (!operation) return;
  operation->called = now_;
  operation->connection = client.connection;
  client.sent.push_back(std::move(*operation));
}

void Servers::act(TestClient& client) {
  const auto now = static_cast<Milliseconds>(kFirstTime) + now_;
  const auto key = [&] { return "k" + std::to_string(below(3)); };
  const auto number_key = [&] { return "n" + std::to_string(below(3)); };
  const auto step_of = [](Kind kind, std::string name, std::string value = {}) {
    return Step{.kind = kind, .key = std::move(name), .value = std::move(value), .reply = {}};
  };
  if (client.is_in_watch) {
    // The second half of a compare-and-set.
    client.is_in_watch = false;
    Operation both{
        .steps = {step_of(Kind::get, client.watched_key), step_of(Kind::incr, client.watched_key)}};
    both.steps[0].reply = client.watched_value;
    send(client, {"MULTI"}, std::nullopt, "OK");
    send(client, {"INCR", client.watched_key}, std::nullopt, "QUEUED");
    send(client, {"EXEC"}, both, "cas");
  } else if (below(6) == 0) {
    client.watched_key = number_key();
    send(client, {"WATCH", client.watched_key}, std::nullopt, "OK");
    send(client, {"GET", client.watched_key}, Operation{.steps = {step_of(Kind::get, client.watched_key)}},
         "watched");
  } else if (below(6) == 0) {
    // Transactions connect pairs of keys only, because the check of a history takes long if they connect all
    // keys.
    const std::string a = number_key(), b = "k" + a.substr(1);
    const std::string value = std::to_string(++last_value_);
    send(client, {"MULTI"}, std::nullopt, "OK");
    for (const auto& words : {std::vector<std::string>{"INCR", a}, {"GET", b}, {"APPEND", b, value}})
      send(client, words, std::nullopt, "QUEUED");
    send(
        client, {"EXEC"},
        Operation{.steps = {step_of(Kind::incr, a), step_of(Kind::get, b), step_of(Kind::append, b, value)}});
  } else {
    for (auto count = 1 + below(3); count > 0; --count) {
      const std::string value = std::to_string(++last_value_);
      const std::string name = key();
      switch (below(5)) {
        case 0:
          send(client, {"SET", name, value}, Operation{.steps = {step_of(Kind::set, name, value)}});
          break;
        case 1:
          send(client, {"APPEND", name, value}, Operation{.steps = {step_of(Kind::append, name, value)}});
          break;
        case 2: {
          const std::string number = number_key();
          send(client, {"INCR", number}, Operation{.steps = {step_of(Kind::incr, number)}});
          break;
        }
        default: send(client, {"GET", name}, Operation{.steps = {step_of(Kind::get, name)}});
      }
    }
  }
  client.server->service.execute(*client.client, now);
}

void Servers::read_replies(TestClient& client) {
  client.got += std::exchange(client.client->output, {});
  std::string_view rest = client.got;
  while (!client.expected.empty()) {
    std::vector<std::string> replies;
    bool is_null = false;
    if (!read_reply(rest, replies, is_null)) break;
    const std::string kind = client.expected.front();
    client.expected.pop_front();
    BOOST_REQUIRE_MESSAGE(!replies.empty() && !replies.front().starts_with('-'),
                          kind + ": " + replies.front());
    finish(client, kind, replies, is_null);
  }
  client.got = std::string(rest);
}

void Servers::finish(TestClient& client, const std::string& kind, const std::vector<std::string>& replies,
                     bool is_null) {
  if (kind == "OK" || kind == "QUEUED") {
    BOOST_REQUIRE_EQUAL(replies.front(), kind);
    return;
  }
  Operation done = std::move(client.sent.front());
  client.sent.pop_front();
  done.returned = now_;
  if (kind == "cas") {
    // Nothing has happened if the key had changed.
    if (is_null) return void(++aborted);
    done.steps[1].reply = replies.front();
  } else {
    BOOST_REQUIRE_EQUAL(replies.size(), done.steps.size());
    for (std::size_t i = 0; i < replies.size(); ++i) done.steps[i].reply = replies[i];
  }
  if (kind == "watched") {
    client.is_in_watch = true;
    client.watched_value = replies.front();
  }
  history.push_back(std::move(done));
}

/// The server of the client has died.
void Servers::lose(TestClient& client) {
  for (Operation& one : client.sent) {
    one.is_certain = false;
    // The replies of a compare-and-set that are not known do not matter: only its effect does.
    if (one.steps.front().kind != Kind::get || one.steps.size() > 1) history.push_back(std::move(one));
  }
  client = {.number = client.number};
}

void Servers::settle() {
  for (std::size_t i = 0; i < 2'000'000; ++i) {
    const bool is_quiet =
        std::ranges::all_of(clients_, [](const TestClient& one) { return one.expected.empty(); }) &&
        std::ranges::all_of(all, [&](const auto& one) {
          return !one->is_alive || (one->unordered.empty() && one->executed == log_.size());
        });
    if (is_quiet && i > 10) return;
    const auto now = static_cast<Milliseconds>(kFirstTime) + now_;
    for (const auto& one : all) {
      if (!one->is_alive) continue;
      one->service.end_turn(now);
      order_one(*one);
      receive_one(*one);
      execute_one(*one);
      tell_stable(*one);
    }
    for (TestClient& client : clients_)
      if (client.server != nullptr) read_replies(client);
  }
  BOOST_FAIL("the clients get no replies");
}

}  // namespace rdmc::kv::testing
