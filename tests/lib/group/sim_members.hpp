// The members of one group as simulated processes.
#pragma once

#include "tests/lib/group/group_end.hpp"
#include "tests/lib/group/sim_peer.hpp"

namespace rdmc::group {

class SimMember final : public SimPeer, public GroupEnd {
 public:
  using SimPeer::SimPeer;
};

/// A group of connected members. The member of rank i is members[i], and its PeerId is i.
class SimGroup {
 public:
  SimGroup(std::uint64_t seed, GroupConfig config, const port::SimPortOptions& port_options = {},
           const PeersConfig& peers = {})
      : simulation(seed), network(simulation) {
    for (std::uint32_t rank = 0; rank < config.members.size(); ++rank) {
      members.push_back(std::make_unique<SimMember>(network, port_options, peers));
      config.rank = Rank{rank};
      SimMember& member = *members.back();
      connected = connected && member.open(member.peers(), config);
      // A real engine may also give a turn before the links are connected.
      member.run(Time{});
    }
    for (std::uint32_t rank = 0; rank < config.members.size(); ++rank) {
      for (const Rank peer : members[rank]->group().neighbours()) {
        const auto blob = *members[rank]->peers().offer(PeerId{value_of(peer)});
        connected = connected && members[value_of(peer)]->peers().connect(PeerId{rank}, blob).has_value();
      }
    }
    for (auto& member : members) member->wake();
  }

  SimMember& operator[](std::size_t rank) { return *members[rank]; }
  SimMember& root() { return *members[0]; }

  /// Makes the root send `bytes` random bytes as its next message.
  void send(std::uint64_t bytes) {
    send_failed = !root().send_random(bytes, simulation.random()) || send_failed;
    ++sent_;
    root().wake();
  }

  /// Returns true if every member completes every message that was sent so far before `limit`.
  bool run_to_completion(Time limit) {
    const auto done = [&] {
      return std::ranges::all_of(members, [&](auto& m) { return m->completed_messages.size() == sent_; });
    };
    return simulation.run_until(done, limit);
  }

  /// Returns true if every member has received every message completely, in order and without duplicates, and
  /// no guard was written.
  bool everybody_has_everything() {
    return std::ranges::all_of(members, [&](auto& member) { return member->has_all(sent_, root()); });
  }

  sim::Simulation simulation;
  sim::Network network;
  std::vector<std::unique_ptr<SimMember>> members;
  bool connected = true;
  bool send_failed = false;

 private:
  std::uint64_t sent_ = 0;
};

}  // namespace rdmc::group
