#include "apps/sim/kv_clients.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

namespace rdmc::sim_app {

namespace {

using kv::Operation;
using kv::Step;
using Kind = kv::Step::Kind;

/// Times of events are rounded to milliseconds.
constexpr std::int64_t kRounding = 2 * kMillisecond;
/// The numbers of keys of each kind in a round.
constexpr std::uint64_t kKeys = 3, kDeadlineKeys = 2;
constexpr std::uint64_t kLongestDeadline = 400;
/// The longest times between WATCH and its transaction. In the last one, much can happen.
constexpr std::array<std::uint64_t, 3> kThinks{1, 5 * kMillisecond, 500 * kMillisecond};

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

Step step_of(Kind kind, std::string key, std::string value = {}) {
  return {.kind = kind, .key = std::move(key), .value = std::move(value), .reply = {}};
}

}  // namespace

KvClients::KvClients(const KvClientsOptions& options)
    : options_(options), random_(options.seed), clients_(options.clients) {}

void KvClients::violation(std::string what) {
  constexpr std::size_t kMostViolations = 20;
  if (violations.size() < kMostViolations) violations.push_back(std::move(what));
}

void KvClients::step(const std::function<KvServer&()>& any_server, std::int64_t now) {
  now_ = now;
  TestClient& client = clients_[below(clients_.size())];
  if (client.server == nullptr) connect(client, any_server());
  if (!client.server->takes_requests()) return;
  read_replies(client);
  if (client.server == nullptr || !client.awaited.empty()) return;
  if (client.must_reconnect) return close(client);
  if (client.thinks_until > now_) return;
  act(client);
  client.server->service().execute(*client.client, client.server->clock());
}

void KvClients::read_replies(std::int64_t now) {
  now_ = now;
  for (TestClient& client : clients_)
    if (client.server != nullptr && client.server->takes_requests()) read_replies(client);
}

bool KvClients::have_all_replies() const {
  return std::ranges::all_of(clients_, [](const TestClient& one) { return one.awaited.empty(); });
}

void KvClients::connect(TestClient& client, KvServer& server) {
  client.server = &server;
  client.connection = ++last_connection_;
  client.client = &server.service().connect("test", server.clock());
}

void KvClients::lose(const KvServer& server) {
  for (TestClient& client : clients_) {
    if (client.server != &server) continue;
    for (Sent& one : client.sent) keep_uncertain(std::move(one));
    client = {};
  }
}

void KvClients::close(TestClient& client) {
  for (Sent& one : client.sent) keep_uncertain(std::move(one));
  client.server->service().disconnect(*client.client);
  client = {};
}

bool KvClients::disconnect_one() {
  const auto waits = [](const TestClient& one) {
    return !one.awaited.empty() && one.server->takes_requests();
  };
  const auto client = std::ranges::find_if(clients_, waits);
  if (client == clients_.end()) return false;
  close(*client);
  return true;
}

// -- Requests --

void KvClients::send(TestClient& client, const Words& words, Awaited awaited) {
  const std::string bytes = encoded(words);
  const auto space = client.client->parser.space(bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  client.client->parser.received(bytes.size());
  client.awaited.push_back(awaited);
}

void KvClients::send(TestClient& client, const Words& words, Awaited awaited, std::vector<Step> steps,
                     kv::Milliseconds expires_after) {
  send(client, words, awaited);
  Operation operation{.called = now_, .connection = client.connection, .steps = std::move(steps)};
  client.sent.push_back({std::move(operation), expires_after});
  ++begun;
}

std::string KvClients::key_of(const char* kind) {
  return kind + std::to_string(round_) + "." + std::to_string(below(kKeys));
}

void KvClients::act(TestClient& client) {
  if (options_.operations_of_round != 0) {
    const std::uint64_t before = std::exchange(round_, begun / options_.operations_of_round);
    if (before != round_) with_deadline_.clear();
  }
  if (client.is_in_watch) return compare_and_set(client);
  if (below(6) == 0) return watch(client);
  if (below(6) == 0) return send_transaction(client);
  if (options_.uses_deadlines && below(4) == 0) return use_deadline(client);
  for (auto count = 1 + below(3); count > 0; --count) send_one(client);
}

void KvClients::watch(TestClient& client) {
  client.watched_key = key_of("n");
  send(client, {"WATCH", client.watched_key}, Awaited::watch);
  send(client, {"GET", client.watched_key}, Awaited::watched_value, {step_of(Kind::get, client.watched_key)});
}

/// The key has not changed since the client watches it, or nothing happens.
void KvClients::compare_and_set(TestClient& client) {
  client.is_in_watch = false;
  std::vector<Step> steps = {step_of(Kind::get, client.watched_key), step_of(Kind::incr, client.watched_key)};
  steps[0].reply = client.watched_value;
  send(client, {"MULTI"}, Awaited::ok);
  send(client, {"INCR", client.watched_key}, Awaited::queued);
  send(client, {"EXEC"}, Awaited::compare_and_set, std::move(steps));
}

/// Transactions connect pairs of keys only, because the check of a history takes long if they connect all
/// keys.
void KvClients::send_transaction(TestClient& client) {
  const std::string a = key_of("n"), b = "k" + a.substr(1), value = next_value();
  send(client, {"MULTI"}, Awaited::ok);
  for (const auto& words : {Words{"INCR", a}, Words{"GET", b}, Words{"APPEND", b, value}})
    send(client, words, Awaited::queued);
  send(client, {"EXEC"}, Awaited::operation,
       {step_of(Kind::incr, a), step_of(Kind::get, b), step_of(Kind::append, b, value)});
}

void KvClients::send_one(TestClient& client) {
  const std::string key = key_of("k"), value = next_value();
  switch (below(5)) {
    case 0: return send(client, {"SET", key, value}, Awaited::operation, {step_of(Kind::set, key, value)});
    case 1:
      return send(client, {"APPEND", key, value}, Awaited::operation, {step_of(Kind::append, key, value)});
    case 2: {
      const std::string number = key_of("n");
      return send(client, {"INCR", number}, Awaited::operation, {step_of(Kind::incr, number)});
    }
    default: return send(client, {"GET", key}, Awaited::operation, {step_of(Kind::get, key)});
  }
}

/// A key gets a deadline once. So it is known what its expiry looks like: it is an operation of its own,
/// after which the key is missing.
void KvClients::use_deadline(TestClient& client) {
  const std::string value = next_value();
  if (with_deadline_.empty() || (with_deadline_.size() < kDeadlineKeys && below(6) == 0)) {
    const std::string key = with_deadline_.emplace_back("p" + std::to_string(++last_deadline_key_));
    const auto time = static_cast<kv::Milliseconds>(1 + below(kLongestDeadline));
    return send(client, {"SET", key, value, "PX", std::to_string(time)}, Awaited::operation,
                {step_of(Kind::set, key, value)}, time);
  }
  const std::string& key = with_deadline_[below(with_deadline_.size())];
  if (below(3) == 0)
    send(client, {"APPEND", key, value}, Awaited::operation, {step_of(Kind::append, key, value)});
  else
    send(client, {"GET", key}, Awaited::operation, {step_of(Kind::get, key)});
}

void KvClients::read_everything(KvServer& server, std::int64_t now) {
  now_ = now;
  std::set<std::string> keys;
  for (const Operation& operation : history)
    for (const Step& step : operation.steps) keys.insert(step.key);
  TestClient& client = clients_.emplace_back();
  connect(client, server);
  for (const std::string& key : keys)
    send(client, {"GET", key}, Awaited::operation, {step_of(Kind::get, key)});
  server.service().execute(*client.client, server.clock());
}

// -- Replies --

void KvClients::read_replies(TestClient& client) {
  client.got += std::exchange(client.client->output, {});
  std::string_view rest = client.got;
  while (!client.awaited.empty()) {
    std::vector<std::string> replies;
    bool is_null = false;
    if (!read_reply(rest, replies, is_null)) break;
    const Awaited awaited = client.awaited.front();
    client.awaited.pop_front();
    finish(client, awaited, replies, is_null);
  }
  client.got = std::string(rest);
  // The server ends the connections of clients whose users are gone with the state of the service.
  if (client.client->is_closing) return close(client);
  // Requests may have waited for space. The sockets of rdmc_kv do the same.
  kv::Service& service = client.server->service();
  if (client.client->is_stopped && !service.is_full(*client.client))
    service.execute(*client.client, client.server->clock());
}

void KvClients::finish(TestClient& client, Awaited awaited, const std::vector<std::string>& replies,
                       bool is_null) {
  const std::string first = replies.empty() ? "" : replies.front();
  if (first.starts_with('-')) return finish_with_error(client, awaited, first);
  if (awaited == Awaited::ok || awaited == Awaited::queued || awaited == Awaited::watch) {
    const char* const expected = awaited == Awaited::queued ? "QUEUED" : "OK";
    if (first != expected) violation("a reply is '" + first + "' and not " + expected);
    return;
  }
  Sent done = std::move(client.sent.front());
  client.sent.pop_front();
  if (!is_null) return finish(client, std::move(done), awaited, replies);
  if (awaited == Awaited::compare_and_set)
    ++given_up;
  else
    violation("a transaction was given up that watches no key: " + to_string(done.operation));
}

void KvClients::finish(TestClient& client, Sent done, Awaited awaited,
                       const std::vector<std::string>& replies) {
  std::vector<Step>& steps = done.operation.steps;
  done.operation.returned = now_;
  if (awaited == Awaited::compare_and_set) {
    steps.back().reply = replies.front();
  } else if (replies.size() != steps.size()) {
    return violation("a reply has a wrong number of elements: " + to_string(done.operation));
  } else {
    for (std::size_t i = 0; i < replies.size(); ++i) steps[i].reply = replies[i];
  }
  if (awaited == Awaited::watched_value && !client.must_reconnect) {
    client.is_in_watch = true;
    client.watched_value = replies.front();
    client.thinks_until = now_ + static_cast<std::int64_t>(below(kThinks[below(kThinks.size())]));
  }
  note_expiry(done);
  history.push_back(std::move(done.operation));
}

/// A client that does not know whether it watches a key connects again, because it cannot use this
/// connection for other transactions.
void KvClients::finish_with_error(TestClient& client, Awaited awaited, const std::string& error) {
  const bool has_no_effect = error.starts_with("-CLUSTERDOWN ") || error.starts_with("-LOADING ");
  if (!options_.may_fail || (!has_no_effect && !error.starts_with("-UNCERTAIN ")))
    violation("a request got the reply " + error);
  if (awaited == Awaited::watch || awaited == Awaited::watched_value) client.must_reconnect = true;
  if (awaited == Awaited::ok || awaited == Awaited::queued)
    return violation("a command was not queued: " + error);
  if (awaited == Awaited::watch) return;
  Sent one = std::move(client.sent.front());
  client.sent.pop_front();
  if (has_no_effect)
    ++refused;
  else
    keep_uncertain(std::move(one));
}

/// An operation that only reads says nothing if its reply is not known.
void KvClients::keep_uncertain(Sent one) {
  ++uncertain;
  const auto is_read = [](const Step& step) { return step.kind == Kind::get; };
  if (std::ranges::all_of(one.operation.steps, is_read)) return;
  one.operation.is_certain = false;
  note_expiry(one);
  history.push_back(std::move(one.operation));
}

void KvClients::note_expiry(const Sent& sent) {
  if (sent.expires_after == 0) return;
  const Operation& set = sent.operation;
  Operation expiry{.called = set.called, .is_certain = set.is_certain && options_.clocks_differ.has_value()};
  expiry.steps.push_back(step_of(Kind::set, set.steps.front().key));
  if (options_.clocks_differ) {
    const std::int64_t inexact = *options_.clocks_differ + kRounding;
    const std::int64_t time = sent.expires_after * kMillisecond;
    expiry.called = std::max(set.called, set.called + time - inexact);
    expiry.returned = set.returned + time + inexact;
  }
  history.push_back(std::move(expiry));
}

}  // namespace rdmc::sim_app
