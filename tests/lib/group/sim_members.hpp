// Group members as simulated processes: each has a port on the simulated network, the software fabric over it
// and a group, exactly as in a real process; only time, packets and randomness come from the simulation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/memory/arena.hpp"
#include "dataplane/port/sim_port.hpp"
#include "dataplane/sim/network.hpp"
#include "dataplane/sim/simulation.hpp"
#include "lib/group/group.hpp"
#include "lib/group/memory_store.hpp"

namespace rdmc::group {

class SimMember final : public sim::Process, public Listener {
 public:
  static constexpr std::size_t kMostBytes = 4u << 20;

  SimMember(sim::Network& network, const port::SimPortOptions& port_options)
      : simulation_(network.simulation()),
        process_(simulation_.add_process(network.add_host({}), *this)),
        random_(simulation_.random().next()),
        port_(network, process_, port_options),
        fabric_(port_, {.entropy = [this] { return static_cast<std::uint32_t>(random_.next()); }}) {}

  void run(Time now) override {
    // A turn of the engine, without its waiting.
    fabric_.progress(now);
    if (group_) group_->work(now);
    fabric_.progress(now);
  }
  Time next_deadline() override { return fabric_.next_deadline(); }

  Store* incoming(std::uint64_t message, std::uint64_t bytes) override {
    announced[message] = bytes;
    if (choose_store) return choose_store(message, bytes);
    return accept_at_once ? &store_for(message, bytes) : nullptr;
  }
  void delivered(std::uint64_t message) override {
    delivered_messages.push_back(message);
    if (on_delivered) on_delivered();
  }
  void completed(std::uint64_t message) override {
    completed_messages.push_back(message);
    if (on_completed) on_completed();
  }
  void failed(std::optional<Rank> peer, const Error& error) override {
    ++failures;
    failed_peer = peer;
    failure = error;
    if (on_failed) on_failed();
  }

  /// A message's memory: page aligned, exactly as long as asked, followed by a guard that nobody may touch.
  Store& store_for(std::uint64_t message, std::uint64_t bytes) {
    Kept& kept = messages_[message];
    kept.arena = *memory::Arena::make(bytes + memory::kPageBytes);
    kept.bytes = kept.arena.bytes().first(bytes);
    kept.store = std::make_unique<MemoryStore>(kept.bytes, bytes, block_bytes);
    return *kept.store;
  }
  std::span<std::byte> bytes(std::uint64_t message) { return messages_[message].bytes; }
  bool guard_is_intact(std::uint64_t message) {
    const Kept& kept = messages_[message];
    const auto guard = kept.arena.bytes().subspan(kept.bytes.size());
    return std::ranges::all_of(guard, [](std::byte b) { return b == std::byte{0}; });
  }

  Group& group() { return *group_; }
  fabric::SoftwareFabric& fabric() { return fabric_; }
  sim::ProcessId process() const { return process_; }
  void wake() { simulation_.wake(process_); }

  bool accept_at_once = true;
  std::function<Store*(std::uint64_t message, std::uint64_t bytes)> choose_store;
  std::function<void()> on_delivered, on_completed, on_failed;
  std::uint32_t block_bytes = 0;
  std::map<std::uint64_t, std::uint64_t> announced;
  std::vector<std::uint64_t> delivered_messages, completed_messages;
  int failures = 0;
  std::optional<Rank> failed_peer;
  Error failure{};

 private:
  friend class SimGroup;
  struct Kept {
    memory::Arena arena;
    std::span<std::byte> bytes;
    std::unique_ptr<MemoryStore> store;
  };

  sim::Simulation& simulation_;
  sim::ProcessId process_;
  Random random_;
  port::SimPort port_;
  fabric::SoftwareFabric fabric_;
  std::map<std::uint64_t, Kept> messages_;  // outlive the group
  std::unique_ptr<Group> group_;
};

/// A connected group of them, rank i being members[i].
class SimGroup {
 public:
  SimGroup(std::uint64_t seed, GroupConfig config, const port::SimPortOptions& port_options = {})
      : simulation(seed), network(simulation) {
    for (std::uint32_t rank = 0; rank < config.members; ++rank) {
      members.push_back(std::make_unique<SimMember>(network, port_options));
      config.rank = Rank{rank};
      SimMember& member = *members.back();
      member.block_bytes = config.block_bytes;
      member.group_ = *Group::create(member.fabric_, config, member);
      member.run(Time{});  // an engine may well give it a turn before it is connected
    }
    for (std::uint32_t rank = 0; rank < config.members; ++rank) {
      for (const auto& [peer, blob] : members[rank]->group().local_blobs()) {
        connected = connected && members[value_of(peer)]->group().connect(Rank{rank}, blob).has_value();
      }
    }
    for (auto& member : members) member->wake();
  }

  SimMember& operator[](std::size_t rank) { return *members[rank]; }
  SimMember& root() { return *members[0]; }

  /// The root sends `bytes` random bytes as its next message.
  void send(std::uint64_t bytes) {
    Store& store = root().store_for(sent_, bytes);
    for (std::byte& b : root().bytes(sent_)) b = static_cast<std::byte>(simulation.random().next());
    send_failed = send_failed || !root().group().send(store, bytes).has_value();
    ++sent_;
    root().wake();
  }

  /// True if every member completes every message sent so far before `limit`.
  bool run_to_completion(Time limit) {
    const auto done = [&] {
      return std::ranges::all_of(members, [&](auto& m) { return m->completed_messages.size() == sent_; });
    };
    return simulation.run_until(done, limit);
  }

  /// Every member has every message, byte for byte, in order, once, and wrote nowhere else.
  bool everybody_has_everything() {
    std::vector<std::uint64_t> in_order;
    for (std::uint64_t m = 0; m < sent_; ++m) in_order.push_back(m);
    return std::ranges::all_of(members, [&](auto& member) {
      if (member->delivered_messages != in_order || member->completed_messages != in_order) return false;
      return std::ranges::all_of(in_order, [&](std::uint64_t m) {
        return std::ranges::equal(member->bytes(m), root().bytes(m)) && member->guard_is_intact(m);
      });
    });
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
