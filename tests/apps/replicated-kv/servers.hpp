// Servers of a replicated service in memory, with clients, and a perfect order of events: it keeps to what
// rdmc/replicated_state.hpp promises. Servers execute events late, die and join. What the clients ask and get
// is a history for check_linearizable().
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "apps/replicated-kv/service/service.hpp"
#include "apps/sim/kv_clients.hpp"

namespace rdmc::kv::testing {

using sim_app::KvClients, sim_app::KvServer;

struct Event {
  std::uint64_t server = 0, number = 0;
  Bytes bytes;
  std::int64_t time = 0;
  std::uint64_t random = 0;
};

/// Things that a test breaks on purpose, to see whether it is found.
struct Planted {
  bool answers_before_stable = false, reads_anywhere = false, submits_again_what_was_ordered = false;
};

class Servers;

class Server final : public Order, public KvServer {
 public:
  Server(Servers& all, std::uint64_t server_id, const ServiceOptions& options);
  Result<std::uint64_t> submit(std::span<const std::byte> event) override;
  bool may_answer(std::uint64_t applied) const override;
  Service& service() override { return service_; }
  Milliseconds clock() const override;

  Servers& servers;
  const std::uint64_t id;
  Service service_;
  bool is_alive = true;
  std::deque<Event> unordered;
  std::uint64_t submitted = 0;
  /// Positions. An event is stable when all servers have received it. Some may execute it later.
  std::size_t received = 0, executed = 0, stable = 0;
};

class Servers {
 public:
  Servers(std::uint64_t seed, std::size_t servers, std::size_t clients, Planted planted = {});

  std::uint64_t below(std::uint64_t most) { return random_() % most; }
  /// Something happens at a random place.
  void step();
  void kill(Server& victim);
  /// A new server gets the state from another one.
  void join();
  std::size_t alive() const;
  Server& any_alive();
  Server& main() const;
  Milliseconds now() const;
  /// Runs until every client has its replies, and nothing is left to do.
  void settle();
  void pass(Milliseconds time) { now_ += time; }

  std::vector<std::unique_ptr<Server>> all;
  const KvClients& clients() const { return clients_; }
  std::uint64_t deaths = 0;
  const Planted planted;

 private:
  friend class Server;
  void order_one(Server& server);
  void receive_one(Server& server);
  void execute_one(Server& server);
  void tell_stable(Server& server);
  void tell_status();

  std::mt19937_64 random_;
  std::int64_t now_ = 1000;
  std::vector<Event> log_;
  KvClients clients_;
  std::uint64_t main_ = 1, last_server_ = 0;
};

}  // namespace rdmc::kv::testing
