// A host of the block model: one NIC, one core that handles completions one after the other, and a member of
// each group. Only one thread may use it.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "apps/sim/block_member.hpp"
#include "apps/sim/scenario.hpp"
#include "dataplane/sim/fluid_network.hpp"

namespace rdmc::sim_app {

/// A note in flight between two members. The tag of a message in the fluid network names this note.
struct Letter {
  std::uint32_t group = 0;
  BlockNote note;
};
using BlockPost = sim::Slots<Letter>;

class BlockHost final : public sim::FluidEndpoint, private sim::EventTarget {
 public:
  struct Watcher {
    std::function<void(const std::string&)> violated;
    /// Called when a member of this host has every block of its group's message.
    std::function<void(std::uint32_t group, Rank rank)> delivered;
  };

  BlockHost(sim::Simulation& simulation, sim::FluidNetwork& network, BlockPost& post, const BlockModel& model,
            const Watcher& watcher);

  /// Sets this host's id and the number of hosts. Must be called before all other functions.
  void place(sim::HostId self, std::uint32_t hosts);
  /// Adds a member of the next group. The root of this group is on host `root`. From there on, the ranks
  /// follow the hosts' numbers.
  void join(std::uint32_t root, relay::RelayConfig config, std::uint64_t slots);

  const BlockMember& member(std::uint32_t group) const { return seats_[group]->member; }
  Rank rank(std::uint32_t group) const { return rank_of(self_, *seats_[group]); }
  sim::HostId host_of(std::uint32_t group, Rank rank) const;
  void send(std::uint32_t group, std::uint64_t bytes) { seats_[group]->member.send(bytes); }
  void listen(std::uint32_t group) { seats_[group]->member.listen(); }

 private:
  /// A member of a group, and its connection to the network.
  struct Seat final : BlockOutbox {
    Seat(BlockHost& owner, std::uint32_t number, std::uint32_t root_host, const relay::RelayConfig& config,
         std::uint64_t slots)
        : host(owner), group(number), root(root_host), member(config, slots, *this) {}
    void post(Rank to, const BlockNote& note) override;
    void violate(const std::string& what) override;

    BlockHost& host;
    std::uint32_t group;
    std::uint32_t root;
    BlockMember member;
    bool delivered = false;
  };
  struct Completion {
    std::uint32_t group;
    Rank from;
    relay::BlockWrite write;
  };

  void on_arrival(sim::HostId from, std::uint64_t tag) override;
  void on_event(std::uint64_t argument) override;
  Rank rank_of(sim::HostId host, const Seat& seat) const;

  sim::Simulation& simulation_;
  sim::FluidNetwork& network_;
  BlockPost& post_;
  const BlockModel& model_;
  const Watcher& watcher_;
  sim::HostId self_{};
  std::uint32_t hosts_ = 0;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::deque<Completion> completions_;  ///< Completions that the core has not handled yet.
  Time core_free_{};
};

}  // namespace rdmc::sim_app
