// Several processes, and any number of groups with these processes, in one simulation.
#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/lib/group/group_end.hpp"
#include "tests/lib/group/sim_peer.hpp"

namespace rdmc::group {

/// Returns the host on which a process runs.
using Place = std::function<sim::HostId(sim::Network&, std::size_t process)>;
inline sim::HostId alone(sim::Network& network, std::size_t) {
  return network.add_host({});
}

/// Processes that are all connected with each other.
template <typename Peer>
struct WorldOf {
  explicit WorldOf(std::uint64_t seed, std::size_t count, const PeersConfig& config = {},
                   const Place& place = alone, const port::SimPortOptions& port = {})
      : simulation(seed), network(simulation) {
    for (std::size_t i = 0; i < count; ++i)
      processes.push_back(std::make_unique<Peer>(network, port, config, place(network, i)));
    connect_all();
  }
  void connect_all() {
    const auto ids = first_peers(processes.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j)
        BOOST_REQUIRE(connect(*processes[i], ids[i], *processes[j], ids[j]));
    }
  }
  std::uint64_t datagrams() const {
    return std::accumulate(processes.begin(), processes.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& p) { return sum + p->datagrams_sent(); });
  }
  void wake_all() {
    for (auto& process : processes) process->wake();
  }
  void run_for(Duration duration) { simulation.run_until(simulation.now() + duration); }

  sim::Simulation simulation;
  sim::Network network;
  std::vector<std::unique_ptr<Peer>> processes;
};
using World = WorldOf<SimPeer>;

/// A group in a World. `members` contains the numbers of the group's processes. The first one is the root.
/// All members have the same `config`, except for the rank.
struct SharedGroup {
  SharedGroup(World& w, GroupName n, std::vector<std::uint32_t> m, GroupConfig c = {})
      : world(w), members(std::move(m)), config(std::move(c)) {
    config.name = n;
    config.block_bytes = 16 * 1024;
    config.members.clear();
    for (const std::uint32_t member : members) config.members.push_back(PeerId{member});
    for (std::size_t rank = 0; rank < members.size(); ++rank) ends.push_back(std::make_unique<GroupEnd>());
  }
  Result<void> make(std::size_t rank) {
    config.rank = Rank{static_cast<std::uint32_t>(rank)};
    return ends[rank]->open(world.processes[members[rank]]->peers(), config);
  }
  void make_all() {
    for (std::size_t rank = 0; rank < members.size(); ++rank) BOOST_REQUIRE(make(rank));
  }
  void send(std::uint64_t bytes, std::optional<relay::MessagePlan> plan = std::nullopt) {
    BOOST_REQUIRE(ends[0]->send_random(bytes, world.simulation.random(), plan));
    ++sent;
    world.processes[members[0]]->wake();
  }
  bool is_complete() const {
    return std::ranges::all_of(ends, [&](const auto& end) { return end->completed_messages.size() == sent; });
  }
  bool everybody_has_everything() {
    return std::ranges::all_of(ends, [&](auto& end) { return end->has_all(sent, *ends[0]); });
  }
  int failures() const {
    return std::accumulate(ends.begin(), ends.end(), 0,
                           [](int sum, const auto& end) { return sum + end->failures; });
  }

  void close_all() {
    for (auto& end : ends) BOOST_REQUIRE(end->group().close());
    world.wake_all();
  }
  bool is_closed() const {
    return std::ranges::all_of(ends,
                               [](const auto& e) { return e->releases == 1 && e->group().is_closed(); });
  }

  World& world;
  std::vector<std::uint32_t> members;
  GroupConfig config;
  std::vector<std::unique_ptr<GroupEnd>> ends;
  std::uint64_t sent = 0;
};

}  // namespace rdmc::group
