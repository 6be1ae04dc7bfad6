#include "tests/apps/replicated-kv/servers.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

namespace rdmc::kv::testing {

namespace {

constexpr std::uint64_t kFirstTime = 1'700'000'000'000;

}  // namespace

Server::Server(Servers& its_servers, std::uint64_t server_id, const ServiceOptions& options)
    : servers(its_servers), id(server_id), service_(options) {
  service_.begin(*this, id);
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
    : planted(plants), random_(seed), clients_({.seed = seed, .clients = clients}) {
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(
        std::make_unique<Server>(*this, ++last_server_, ServiceOptions{.is_alone = false, .seed = seed + i}));
  tell_status();
}

std::size_t Servers::alive() const {
  return static_cast<std::size_t>(std::ranges::count_if(all, [](const auto& one) { return one->is_alive; }));
}

Milliseconds Server::clock() const {
  return static_cast<Milliseconds>(kFirstTime) + servers.now_;
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
      one->service_.on_status({.is_main = one->id == main_ || planted.reads_anywhere,
                               .is_complete = true,
                               .complete_replicas = static_cast<std::uint32_t>(alive()),
                               .stored_replicas = static_cast<std::uint32_t>(alive())},
                              static_cast<Milliseconds>(kFirstTime) + now_);
  for (const auto& one : all) one->service_.on_servers(servers);
}

void Servers::kill(Server& victim) {
  ++deaths;
  victim.is_alive = false;
  clients_.lose(victim);
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
  donor.service_.save(
      [&](std::vector<std::byte> piece) { state.insert(state.end(), piece.begin(), piece.end()); });
  BOOST_REQUIRE(joined->service_.on_load({.step = LoadState::Step::begin}));
  for (std::span<const std::byte> rest = state; !rest.empty();) {
    const auto piece = rest.first(std::min<std::size_t>(rest.size(), 1 + below(1000)));
    BOOST_REQUIRE(joined->service_.on_load({.step = LoadState::Step::bytes, .bytes = piece}));
    rest = rest.subspan(piece.size());
  }
  BOOST_REQUIRE(joined->service_.on_load({.step = LoadState::Step::end, .position = donor.executed}));
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
    case 3: return server.service_.end_turn(server.clock());
    default: return clients_.step([this]() -> KvServer& { return any_alive(); }, now_);
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
  server.service_.on_event({.position = server.executed,
                            .own_number = next.server == server.id ? next.number : 0,
                            .time = next.time,
                            .random = next.random,
                            .bytes = next.bytes});
  ++server.executed;
  if (planted.answers_before_stable) server.service_.on_stable(server.executed);
}

void Servers::tell_stable(Server& server) {
  std::size_t stable = log_.size();
  for (const auto& one : all)
    if (one->is_alive) stable = std::min(stable, one->received);
  stable = std::max(stable, server.stable);
  server.stable += stable == server.stable ? 0 : 1 + below(stable - server.stable);
  server.service_.on_stable(server.stable);
}

void Servers::settle() {
  for (std::size_t i = 0; i < 2'000'000; ++i) {
    const bool is_quiet = clients_.have_all_replies() && std::ranges::all_of(all, [&](const auto& one) {
                            return !one->is_alive || (one->unordered.empty() && one->executed == log_.size());
                          });
    if (is_quiet && i > 10) return;
    for (const auto& one : all) {
      if (!one->is_alive) continue;
      one->service_.end_turn(one->clock());
      order_one(*one);
      receive_one(*one);
      execute_one(*one);
      tell_stable(*one);
    }
    clients_.read_replies(now_);
  }
  BOOST_FAIL("the clients get no replies");
}

}  // namespace rdmc::kv::testing
