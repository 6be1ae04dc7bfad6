// The block model: hosts on a fluid network, each with a member of every group, and the checks of the result.
#include <algorithm>
#include <bit>
#include <memory>

#include "apps/sim/block_host.hpp"
#include "apps/sim/measures.hpp"

namespace rdmc::sim_app {
namespace {

/// A run that is not finished at this time is hung.
constexpr Duration kGivenUpAfter = seconds(100'000);
/// The largest number of reported violations and hangs. This is enough to find the cause.
constexpr std::size_t kMostViolations = 20;

class BlockWorld {
 public:
  explicit BlockWorld(const ScenarioOptions& options)
      : options_(options),
        model_(options_.blocks),
        simulation_(options.seed),
        network_(simulation_, {.delay = model_.latency, .jitter = model_.jitter}),
        watcher_{.violated = [this](const std::string& what) { violate(what); },
                 .delivered = [this](std::uint32_t group, Rank rank) { deliver(group, rank); }},
        delivered_(options.members) {
    add_hosts();
    for (std::uint32_t group = 0; group < model_.senders; ++group) add_group(group);
    slow_down();
  }

  ScenarioResult run() {
    for (std::uint32_t group = 0; group < model_.senders; ++group) {
      for (const auto& host : hosts_)
        if (value_of(host->rank(group)) != 0) host->listen(group);
    }
    // The arenas are granted before the message is sent, as between two messages of one group.
    simulation_.run_until(Time{} + kBeforehand);
    for (std::uint32_t group = 0; group < model_.senders; ++group)
      root(group).send(group, options_.size_bytes);
    const std::uint64_t receivers = std::uint64_t{options_.members - 1} * model_.senders;
    while (deliveries_.count() < receivers && simulation_.now() < Time{} + kGivenUpAfter &&
           simulation_.step()) {
    }
    if (deliveries_.count() < receivers) explain_hang();
    // Only acknowledgements and the last relayed blocks are still in flight. They must also end.
    while (simulation_.step()) {
    }
    for (std::uint32_t group = 0; group < model_.senders; ++group) check_end(group);
    return result();
  }

 private:
  static constexpr Duration kBeforehand = milliseconds(10);

  BlockHost& root(std::uint32_t group) { return *hosts_[value_of(hosts_[0]->host_of(group, Rank{0}))]; }

  std::size_t rack_of(std::uint32_t host) const {
    return options_.racks.is_known() ? options_.racks.index_of(host) : 0;
  }

  void deliver(std::uint32_t group, Rank rank) {
    deliveries_.add(simulation_.now());
    if (group == 0) delivered_[value_of(rank)] = (simulation_.now() - (Time{} + kBeforehand)).seconds();
  }

  /// Adds the hosts by rank in the first group. The hosts of a rack are connected through an uplink. The rack
  /// has no uplink if the uplink would have the rate of all links of the rack together.
  void add_hosts() {
    const auto add = [this](sim::RackId rack) {
      const std::uint64_t rate = link_rate(options_, static_cast<std::uint32_t>(hosts_.size()));
      hosts_.push_back(std::make_unique<BlockHost>(simulation_, network_, post_, model_, watcher_));
      hosts_.back()->place(network_.add_host(rate, rack, *hosts_.back()), options_.members);
    };
    const std::uint64_t uplink = uplink_rate(options_);
    for (const relay::Rack& rack : options_.racks.all()) {
      const bool shared = uplink / rack.members < options_.rate;
      const sim::RackId id = shared ? network_.add_rack(uplink) : sim::RackId{0};
      for (std::uint32_t i = 0; i < rack.members; ++i) add(id);
    }
    while (hosts_.size() < options_.members) add(sim::RackId{0});
  }

  void add_group(std::uint32_t group) {
    const relay::RelayConfig config{.algorithm = options_.algorithm,
                                    .members = options_.members,
                                    .racks = options_.racks,
                                    .block_bytes = options_.block_bytes,
                                    .max_writes_in_flight = model_.writes_in_flight};
    for (const auto& host : hosts_) host->join(group % options_.members, config, ring_slots(options_));
  }

  /// Returns the connections of the first group in random order. Returns all of them, or only those between
  /// racks.
  std::vector<std::pair<sim::HostId, sim::HostId>> connections(bool between_racks) {
    std::vector<std::pair<sim::HostId, sim::HostId>> found;
    for (std::uint32_t i = 0; i < options_.members; ++i) {
      const sim::HostId self{i};
      for (const Rank peer : hosts_[i]->member(0).relay().schedule().neighbours()) {
        const sim::HostId other = hosts_[i]->host_of(0, peer);
        if (value_of(other) > i && (!between_racks || rack_of(i) != rack_of(value_of(other))))
          found.emplace_back(self, other);
      }
    }
    for (std::size_t i = found.size(); i > 1; --i)
      std::swap(found[i - 1], found[simulation_.random().below(i)]);
    return found;
  }

  void slow_down() {
    if (model_.slow_links == 0 && model_.slow_percent == 0) return;
    auto slow = connections(model_.slow_links == 0 && options_.racks.is_known());
    const std::size_t count =
        std::max<std::size_t>(model_.slow_links, slow.size() * model_.slow_percent / 100);
    slow.resize(std::min(slow.size(), count));
    for (const auto& [a, b] : slow) network_.limit_path(a, b, model_.slow_rate);
    slowed_ = slow.size();
  }

  void violate(const std::string& what) {
    if (violations_.size() < kMostViolations) violations_.push_back(what);
  }

  /// Reports the cause of a hang. In each group, this is the wait with the lowest step among the waits of all
  /// members.
  void explain_hang() {
    for (std::uint32_t group = 0; group < model_.senders; ++group) {
      const BlockHost* first = nullptr;
      for (const auto& host : hosts_) {
        const auto wait = host->member(group).relay().wait();
        if (wait && (first == nullptr || wait->step < first->member(group).relay().wait()->step))
          first = host.get();
      }
      if (first == nullptr) continue;
      const auto wait = first->member(group).relay().wait();
      violate("group " + std::to_string(group) + " hangs: rank " +
              std::to_string(value_of(first->rank(group))) + " waits for rank " +
              std::to_string(value_of(wait->peer)) + " in step " + std::to_string(wait->step));
    }
  }

  void check_end(std::uint32_t group) {
    for (const auto& host : hosts_) {
      const BlockMember& member = host->member(group);
      const std::string who =
          "group " + std::to_string(group) + ", rank " + std::to_string(value_of(host->rank(group)));
      if (!member.relay().is_complete()) violate(who + ": its part did not end");
      if (value_of(host->rank(group)) != 0 && !member.is_whole()) violate(who + ": lacks a block");
    }
  }

  ScenarioResult result() {
    std::uint64_t connections = 0, ring = 0, state = 0;
    for (const auto& host : hosts_) {
      const BlockMember& member = host->member(0);
      connections = std::max(connections, std::uint64_t{member.relay().schedule().neighbours().size()});
      ring = std::max(ring, member.ring_bytes());
      state = std::max(state, std::uint64_t{member.relay().state_bytes()});
    }
    ScenarioResult result;
    result.trace_hash = simulation_.trace().hash();
    result.virtual_seconds = deliveries_.seconds_since(Time{} + kBeforehand);
    result.skew_seconds = deliveries_.skew_seconds();
    result.delivered_seconds = delivered_;
    result.bound_seconds = bound_seconds(options_);
    result.algorithm = relay::to_string(options_.algorithm);
    result.block_bytes = options_.block_bytes;
    result.events = simulation_.events();
    result.violations = violations_;
    result.figures = {{"receivers_ok", deliveries_.count()},
                      {"connections_most", connections},
                      {"ring_bytes_most", ring},
                      {"state_bytes_most", state},
                      {"slow_links", slowed_}};
    return result;
  }

  const ScenarioOptions options_;
  const BlockModel& model_;
  sim::Simulation simulation_;
  sim::FluidNetwork network_;
  BlockPost post_;
  BlockHost::Watcher watcher_;
  std::vector<std::unique_ptr<BlockHost>> hosts_;
  Deliveries deliveries_;
  std::vector<double> delivered_;  ///< The seconds by rank, for the first group.
  std::size_t slowed_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

ScenarioResult run_blocks(const ScenarioOptions& options) {
  return BlockWorld(options).run();
}

}  // namespace rdmc::sim_app
