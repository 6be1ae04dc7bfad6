#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "apps/sim/measures.hpp"
#include "apps/sim/sim_receiver.hpp"
#include "apps/sim/sim_root.hpp"

namespace rdmc::sim_app {
namespace {

/// A job that has not ended after this time is hung. The time is many times longer than all retries, failure
/// decisions and failovers need.
constexpr Duration kHung = seconds(120);
/// After a death, the group's epoch must end at every member within this time.
constexpr Duration kEpochEndsWithin = seconds(1);
/// A stopped root continues after this time. By then its receivers have given it up.
constexpr Duration kStopped = seconds(2);

struct Blow {
  Time at;
  std::size_t receiver;
};

class World {
 public:
  explicit World(const ScenarioOptions& options)
      : options_(options), simulation_(options.seed), network_(simulation_), channels_(network_) {
    const bcast::FileShape shape{options.size_bytes, options.block_bytes};
    const std::uint64_t slots = ring_slots(options);
    HostOptions as{.mtu = options.mtu,
                   .selective_repeat = options.selective_repeat,
                   .algorithm = options.algorithm,
                   .racks = {},
                   .finds_stragglers = options.finds_stragglers,
                   .has_slow_uplinks = options.racks.all().size() > 1 && uplink_rate(options) < options.rate};
    for (std::uint32_t rank = 0; rank < options.racks.members(); ++rank)
      as.racks[session::MemberId{rank}] = static_cast<std::uint32_t>(options.racks.index_of(rank));
    const auto hosts = add_hosts();
    std::vector<std::byte> source(options.size_bytes);
    for (std::size_t at = 0; at < source.size(); at += 8) {
      const std::uint64_t word = simulation_.random().next();
      std::memcpy(source.data() + at, &word, std::min<std::size_t>(8, source.size() - at));
    }
    const std::uint32_t receivers = options.members - 1;
    root_ = std::make_unique<SimRoot>(network_, hosts[0], as, std::move(source), shape, receivers, slots);
    for (std::uint32_t i = 0; i < receivers; ++i) {
      DiskOptions disk;
      if (i < options.slow_disks) disk.bits_per_second = options.rate / 3;
      if (i >= options.slow_disks && i < options.slow_disks + options.full_disks) {
        disk.full_after_blocks = simulation_.random().below(shape.blocks());
      }
      const auto to_survivor = [this, i](session::MemberId other) { return connect_survivors(i, other); };
      receivers_.push_back(
          std::make_unique<SimReceiver>(network_, hosts[i + 1], as, shape, disk, slots, to_survivor));
      const auto [ours, theirs] = channels_.connect(root_->process(), receivers_.back()->process());
      root_->connect(session::MemberId{i + 1}, ours);
      receivers_.back()->connect(theirs);
    }
    network_.set_faults(options.rates);
    plan_blows();
  }

  ScenarioResult run() {
    simulation_.wake(root_->process());
    const auto done = [&] {
      return (root_->finished() || is_dead(*root_)) &&
             std::ranges::all_of(receivers_, [&](auto& r) { return is_over(*r); });
    };
    const bool ended = simulation_.run_until(done, Time{} + kHung);
    check(ended);
    return result();
  }

 private:
  /// Adds the hosts by rank. The hosts of a rack are connected through the rack's uplink.
  std::vector<sim::HostId> add_hosts() {
    std::vector<sim::HostId> hosts;
    const auto add = [&](sim::RackId rack) {
      const auto rank = static_cast<std::uint32_t>(hosts.size());
      const sim::LinkOptions link{.bits_per_second = link_rate(options_, rank),
                                  .delay = link_delay(options_, rank)};
      hosts.push_back(network_.add_host({.link = link, .rack = rack}));
    };
    for (const relay::Rack& rack : options_.racks.all()) {
      const sim::RackId id =
          network_.add_rack({.bits_per_second = uplink_rate(options_), .delay = options_.link_delay});
      for (std::uint32_t i = 0; i < rack.members; ++i) add(id);
    }
    while (hosts.size() < options_.members) add(sim::RackId{0});
    return hosts;
  }

  // Returns a random moment between the start of the simulation and a time after the transfer. The range is
  // twice as long as the time of the file on one link, plus 2 ms.
  Time random_moment() {
    const double transfer =
        static_cast<double>(options_.size_bytes) * 8e9 / static_cast<double>(options_.rate) * 2 + 2e6;
    return Time{static_cast<std::int64_t>(simulation_.random().below(static_cast<std::uint64_t>(transfer)))};
  }

  void plan_blows() {
    std::vector<std::size_t> order(receivers_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[simulation_.random().below(i)]);
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < options_.kills && next + 1 < order.size(); ++i) {
      const Blow blow{random_moment(), order[next++]};
      doomed_.insert(receivers_[blow.receiver].get());
      simulation_.at(blow.at, [this, blow] {
        const SimReceiver& victim = *receivers_[blow.receiver];
        if (is_over(victim)) return;
        if (victim.in_epoch()) kills_.push_back(simulation_.now());
        simulation_.kill(victim.process());
      });
    }
    for (std::uint32_t i = 0; i < options_.pauses && next < order.size(); ++i) {
      const sim::ProcessId process = receivers_[order[next++]]->process();
      const Time at = random_moment();
      const auto pause = static_cast<std::int64_t>(simulation_.random().between(1'000'000, 300'000'000));
      simulation_.at(at, [this, process] { simulation_.pause(process); });
      simulation_.at(at + nanoseconds(pause), [this, process] { simulation_.resume(process); });
    }
    if (options_.root_kills == 0 && options_.root_stops == 0) return;
    const Time at = random_moment();
    simulation_.at(at, [this] {
      if (root_->finished()) return;
      root_lost();
      if (options_.root_kills > 0)
        simulation_.kill(root_->process());
      else
        simulation_.pause(root_->process());
    });
    if (options_.root_kills == 0) {
      simulation_.at(at + kStopped, [this] {
        if (root_lost_at_) simulation_.resume(root_->process());
      });
    }
  }

  /// Notes which blocks the receivers that will survive have together at this moment.
  void root_lost() {
    root_lost_at_ = simulation_.now();
    bcast::BlockMap together(receivers_.front()->file().held().blocks());
    bool in_epoch = false;
    for (const auto& receiver : receivers_) {
      if (is_over(*receiver)) continue;
      in_epoch = in_epoch || receiver->in_epoch();
      if (receiver->was_formed()) orphans_.push_back(receiver.get());
      if (is_sound(*receiver)) together = together | receiver->file().held();
    }
    held_together_ = together.is_full();
    if (in_epoch) kills_.push_back(simulation_.now());
  }

  sim::ChannelEnd* connect_survivors(std::size_t from, session::MemberId to) {
    SimReceiver& other = *receivers_[value_of(to) - 1];
    const auto [ours, theirs] = channels_.connect(receivers_[from]->process(), other.process());
    if (!is_dead(other)) {
      other.visit(theirs);
      simulation_.wake(other.process());
    }
    return ours;
  }

  bool is_dead(const SimHost& host) const {
    return simulation_.state(host.process()) == sim::ProcessState::killed;
  }
  bool is_over(const SimReceiver& r) const { return is_dead(r) || r.is_over(); }
  /// True if no fault is planned for this receiver that may cost it the file.
  bool is_sound(const SimReceiver& r) const {
    return r.file().disk().full_after_blocks == UINT64_MAX && !doomed_.contains(&r);
  }

  void violate(std::string what) { violations_.push_back(std::move(what)); }

  void check(bool ended) {
    if (!ended) violate("the job did not end");
    if (root_->protocol_errors() != 0) violate("the root saw a protocol error");
    for (std::size_t i = 0; i < receivers_.size(); ++i) check_receiver(i);
    for (const Time kill : kills_) check_epoch_end(kill);
    if (root_lost_at_) check_recovery();
  }

  /// Checks the outcome after the loss of the root. If the survivors together have every block, each of them
  /// must end with the file. If there is a block that no survivor has, no survivor may end with the file.
  void check_recovery() {
    const auto committed = [](const SimReceiver* r) { return r->committed(); };
    const auto sound = [this](const SimReceiver* r) { return !is_dead(*r) && is_sound(*r); };
    // If a member that has the file is alive, all others can get the file.
    const bool whole =
        std::ranges::any_of(orphans_, [&](const SimReceiver* r) { return sound(r) && committed(r); });
    for (const SimReceiver* orphan : orphans_) {
      if (!sound(orphan) || orphan->committed()) continue;
      if (held_together_) violate("a survivor failed though they had every block: " + orphan->cause().what);
      if (whole) violate("a survivor failed though another has the file: " + orphan->cause().what);
    }
    (whole ? rescues_ : losses_) += orphans_.empty() ? 0 : 1;
  }

  void check_receiver(std::size_t index) {
    const SimReceiver& receiver = *receivers_[index];
    const std::string who = "member " + std::to_string(index + 1) + ": ";
    if (!receiver.file().violation().empty()) violate(who + receiver.file().violation());
    if (receiver.delivered_twice()) violate(who + "a block was delivered twice in one epoch");
    const bool whole =
        std::ranges::equal(receiver.file().bytes(), root_->source()) && receiver.file().held().is_full();
    if (receiver.committed() && !whole) violate(who + "committed a file that is not the source");
    if (is_dead(receiver)) return;
    if (receiver.outcome() == session::Status::ok && !receiver.committed())
      violate(who + "ok, but not committed");
    if (root_lost_at_) return;  // After the loss of the root, its list of outcomes is out of date.
    const auto outcome = root_->outcomes().find(session::MemberId{static_cast<std::uint32_t>(index + 1)});
    if (outcome == root_->outcomes().end()) return violate(who + "has no outcome at the root");
    const bool full_disk = receiver.file().disk().full_after_blocks != UINT64_MAX;
    if (full_disk) {
      if (receiver.committed()) violate(who + "committed on a full disk");
      return;
    }
    if (outcome->second.first != session::Status::ok) {
      violate(who + "alive, but failed: " + outcome->second.second.what);
    } else if (!receiver.committed()) {
      violate(who + "ok at the root, but not committed");
    }
  }

  // At every receiver, the first epoch that ends after the death must end in time. Pauses of receivers switch
  // this check off.
  void check_epoch_end(Time kill) {
    for (const auto& receiver : receivers_) {
      for (const auto& [epoch, at] : receiver->ended()) {
        if (at < kill || at - kill <= kEpochEndsWithin) continue;
        const bool first_after = std::ranges::none_of(
            receiver->ended(), [&](const auto& e) { return e.second >= kill && e.second < at; });
        if (first_after && options_.pauses == 0) violate("an epoch ended later than 1 s after a death");
      }
    }
  }

  // Returns the time from the root's loss to the last commit of a survivor, or 0 if no survivor has
  // committed.
  double rescue_seconds() const {
    Duration longest{};
    for (const SimReceiver* orphan : orphans_)
      if (orphan->committed_at() && *orphan->committed_at() > *root_lost_at_)
        longest = std::max(longest, *orphan->committed_at() - *root_lost_at_);
    return longest.seconds();
  }

  ScenarioResult result() {
    ScenarioResult result;
    result.trace_hash = simulation_.trace().hash();
    Deliveries deliveries;
    result.delivered_seconds.push_back(0);
    for (const auto& receiver : receivers_) {
      const auto at = receiver->delivered_at();
      if (at) deliveries.add(*at);
      result.delivered_seconds.push_back(at && root_->sent_at() ? (*at - *root_->sent_at()).seconds() : 0);
    }
    result.virtual_seconds = root_->sent_at() ? deliveries.seconds_since(*root_->sent_at()) : 0;
    result.skew_seconds = deliveries.skew_seconds();
    result.bound_seconds = bound_seconds(options_);
    result.events = simulation_.events();
    result.violations = violations_;
    for (std::size_t kind = 0; kind < sim::kFaultKinds; ++kind) {
      const auto fault = static_cast<sim::Fault>(kind);
      result.faults[std::string(sim::name(fault))] = simulation_.faults()[fault];
    }
    for (std::size_t i = 0; i < receivers_.size(); ++i) {
      const SimFile& file = receivers_[i]->file();
      result.faults["slow_disk"] += i < options_.slow_disks && file.held().count() > 0 ? 1 : 0;
      result.faults["full_disk"] += file.filled_up() ? 1 : 0;
    }
    result.faults["root_kill"] = root_lost_at_ && options_.root_kills > 0 ? 1 : 0;
    result.faults["root_stop"] = root_lost_at_ && options_.root_kills == 0 ? 1 : 0;
    std::uint64_t ok = 0, led = 0, orphaned = 0;
    roce::ConnectionCounters sum;
    std::uint64_t in_place = 0, repaired = 0, icrc_errors = 0;
    const auto add = [&](const SimHost& host) {
      sum += host.fabric().connection_counters();
      in_place += host.fabric().counters().packets_in_place;
      repaired += host.fabric().counters().packets_repaired;
      icrc_errors += host.fabric().counters().icrc_errors;
    };
    add(*root_);
    for (const auto& receiver : receivers_) {
      add(*receiver);
      ok += receiver->committed() ? 1 : 0;
      led += receiver->led();
      orphaned += receiver->orphaned();
    }
    result.rescue_seconds = rescue_seconds();
    result.algorithm = relay::to_string(options_.algorithm);
    result.block_bytes = options_.block_bytes;
    result.figures = {{"receivers_ok", ok},
                      {"epochs", root_->epochs()},
                      {"stragglers", root_->stragglers()},
                      {"orphaned", orphaned},
                      {"led", led},
                      {"rescues", rescues_},
                      {"losses", losses_},
                      {"blocks_planned", root_->blocks_planned()},
                      {"retransmitted", sum.retransmitted},
                      {"timeouts", sum.timeouts},
                      {"duplicates", sum.duplicates},
                      {"out_of_order", sum.out_of_order},
                      {"icrc_errors", icrc_errors},
                      {"packets_in_place", in_place},
                      {"packets_repaired", repaired}};
    return result;
  }

  ScenarioOptions options_;
  sim::Simulation simulation_;
  sim::Network network_;
  sim::Channels channels_;
  std::unique_ptr<SimRoot> root_;
  std::vector<std::unique_ptr<SimReceiver>> receivers_;
  std::vector<Time> kills_;              ///< The times of the deaths of members that were in an epoch.
  std::set<const SimReceiver*> doomed_;  ///< The receivers that are to be killed.
  /// The receivers that were in the job when the root was lost.
  std::vector<const SimReceiver*> orphans_;
  std::optional<Time> root_lost_at_;
  bool held_together_ = false;
  std::uint64_t rescues_ = 0, losses_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

ScenarioResult run_packets(const ScenarioOptions& options) {
  return World(options).run();
}

ScenarioResult run_bcast(const ScenarioOptions& options) {
  return options.model == Model::blocks ? run_blocks(options) : run_packets(options);
}

}  // namespace rdmc::sim_app
