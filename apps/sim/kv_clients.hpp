// Clients of a key-value service in memory. What they ask and get is a history for kv::check_linearizable().
// Each client sends one or several requests and waits for all replies. The servers can be any that execute
// requests by kv::Service. A function of the seed and of the calls. One thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/replicated-kv/history/linearizability.hpp"
#include "apps/replicated-kv/service/service.hpp"
#include "dataplane/base/random.hpp"

namespace rdmc::sim_app {

inline constexpr std::int64_t kMillisecond = 1'000'000;  // in nanoseconds

/// A server, as its clients see it.
class KvServer {
 public:
  virtual ~KvServer() = default;
  virtual kv::Service& service() = 0;
  /// The time on the clock of the server.
  virtual kv::Milliseconds clock() const = 0;
  /// False while the server does not react.
  virtual bool takes_requests() const { return true; }
};

struct KvClientsOptions {
  std::uint64_t seed = 1;
  std::size_t clients = 5;
  /// After this number of operations, the clients use fresh keys, because histories of few operations on each
  /// key are checked fast. 0 means never.
  std::uint64_t operations_of_round = 0;
  bool uses_deadlines = false;  ///< some keys have deadlines
  /// The clocks of the servers differ by at most this time, in nanoseconds. nullopt means that they jump, so
  /// a key with a deadline may expire at any time or never.
  std::optional<std::int64_t> clocks_differ = 0;
  bool may_fail = false;  ///< requests may get the errors of a service without a majority
};

class KvClients {
 public:
  explicit KvClients(const KvClientsOptions& options);

  // The functions with `now` need times in nanoseconds that increase with each call.

  /// A random client reads its replies. If it has all of them, it sends something. If it has no connection,
  /// it connects to the server that `any_server` returns.
  void step(const std::function<KvServer&()>& any_server, std::int64_t now);
  /// All clients read their replies.
  void read_replies(std::int64_t now);
  /// The server has died, so its clients lose their connections.
  void lose(const KvServer& server);
  /// A random client closes its connection. Returns false if no client waits for a reply.
  bool disconnect_one();
  bool have_all_replies() const;
  /// A further client connects to the server and reads all keys that were ever used.
  void read_everything(KvServer& server, std::int64_t now);

  std::vector<kv::Operation> history;
  std::vector<std::string> violations;
  /// The numbers of operations that were begun, transactions that were given up because a watched key had
  /// changed, requests that the service refused, and operations whose effect is unknown.
  std::uint64_t begun = 0, given_up = 0, refused = 0, uncertain = 0;

 private:
  /// A reply that a client waits for.
  enum class Awaited : std::uint8_t { ok, queued, watch, operation, watched_value, compare_and_set };
  struct Sent {
    kv::Operation operation;
    kv::Milliseconds expires_after = 0;  // 0: the key has no deadline
  };
  struct TestClient {
    std::uint64_t connection = 0;
    KvServer* server = nullptr;
    kv::Client* client = nullptr;
    std::string got;  // replies that were not read yet
    std::deque<Awaited> awaited;
    std::deque<Sent> sent;     // the operations whose replies are awaited
    bool is_in_watch = false;  // it watches a key and has its value
    bool must_reconnect = false;
    std::string watched_key, watched_value;
    std::int64_t thinks_until = 0;  // between WATCH and the transaction
  };
  using Words = std::vector<std::string>;

  std::uint64_t below(std::uint64_t most) { return random_.below(most); }
  std::string key_of(const char* kind);
  std::string next_value() { return std::to_string(++last_value_); }
  void connect(TestClient& client, KvServer& server);
  void act(TestClient& client);
  void send(TestClient& client, const Words& words, Awaited awaited);
  void send(TestClient& client, const Words& words, Awaited awaited, std::vector<kv::Step> steps,
            kv::Milliseconds expires_after = 0);
  void compare_and_set(TestClient& client);
  void watch(TestClient& client);
  void send_transaction(TestClient& client);
  void send_one(TestClient& client);
  void use_deadline(TestClient& client);
  void read_replies(TestClient& client);
  void finish(TestClient& client, Awaited awaited, const std::vector<std::string>& replies, bool is_null);
  void finish_with_error(TestClient& client, Awaited awaited, const std::string& error);
  void finish(TestClient& client, Sent done, Awaited awaited, const std::vector<std::string>& replies);
  void keep_uncertain(Sent one);
  void note_expiry(const Sent& sent);
  void close(TestClient& client);
  void violation(std::string what);

  const KvClientsOptions options_;
  Random random_;
  std::int64_t now_ = 0;
  std::vector<TestClient> clients_;
  std::vector<std::string> with_deadline_;  // keys of this round
  std::uint64_t round_ = 0, last_value_ = 0, last_connection_ = 0, last_deadline_key_ = 0;
};

}  // namespace rdmc::sim_app
