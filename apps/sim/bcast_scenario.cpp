#include <algorithm>
#include <numeric>

#include "apps/sim/scenario.hpp"
#include "apps/sim/sim_receiver.hpp"
#include "apps/sim/sim_root.hpp"
#include "dataplane/relay/schedule.hpp"

namespace rdmc::sim_app {
namespace {

/// A job that has not ended by then is hung. Every retry, judgement and successor fits many times over.
constexpr Duration kHung = seconds(120);
/// ARCHITECTURE: a group ends with its epoch everywhere within this after a death.
constexpr Duration kEpochEndsWithin = seconds(1);

struct Blow {
  Time at;
  std::size_t receiver;
};

class World {
 public:
  explicit World(const ScenarioOptions& options)
      : options_(options), simulation_(options.seed), network_(simulation_), channels_(network_) {
    const bcast::FileShape shape{options.size_bytes, options.block_bytes};
    const sim::HostOptions host{.link = {.bits_per_second = options.rate}};
    const relay::Schedule schedule(relay::Algorithm::binomial_pipeline, Rank{0}, options.members);
    const std::uint64_t slots = std::max<std::uint64_t>(schedule.minimum_slots() * 2, 8);
    const HostOptions as{.mtu = options.mtu, .selective_repeat = options.selective_repeat};
    std::vector<std::byte> source(options.size_bytes);
    for (std::size_t at = 0; at < source.size(); at += 8) {
      const std::uint64_t word = simulation_.random().next();
      std::memcpy(source.data() + at, &word, std::min<std::size_t>(8, source.size() - at));
    }
    const std::uint32_t receivers = options.members - 1;
    root_ = std::make_unique<SimRoot>(network_, network_.add_host(host), as, std::move(source), shape,
                                      receivers, slots);
    for (std::uint32_t i = 0; i < receivers; ++i) {
      DiskOptions disk;
      if (i < options.slow_disks) disk.bits_per_second = options.rate / 3;
      if (i >= options.slow_disks && i < options.slow_disks + options.full_disks) {
        disk.full_after_blocks = simulation_.random().below(shape.blocks());
      }
      receivers_.push_back(
          std::make_unique<SimReceiver>(network_, network_.add_host(host), as, shape, disk, slots));
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
      return root_->finished() && std::ranges::all_of(receivers_, [&](auto& r) { return is_over(*r); });
    };
    const bool ended = simulation_.run_until(done, Time{} + kHung);
    check(ended);
    return result();
  }

 private:
  // About when the transfer is under way: from before the first block to after the last.
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
      simulation_.at(blow.at, [this, blow] {
        if (is_over(*receivers_[blow.receiver])) return;
        simulation_.kill(receivers_[blow.receiver]->process());
        kills_.push_back({simulation_.now(), blow.receiver});
      });
    }
    for (std::uint32_t i = 0; i < options_.pauses && next < order.size(); ++i) {
      const sim::ProcessId process = receivers_[order[next++]]->process();
      const Time at = random_moment();
      const auto pause = static_cast<std::int64_t>(simulation_.random().between(1'000'000, 300'000'000));
      simulation_.at(at, [this, process] { simulation_.pause(process); });
      simulation_.at(at + nanoseconds(pause), [this, process] { simulation_.resume(process); });
    }
  }

  bool is_dead(const SimReceiver& r) const {
    return simulation_.state(r.process()) == sim::ProcessState::killed;
  }
  bool is_over(const SimReceiver& r) const { return is_dead(r) || r.outcome().has_value(); }

  void violate(std::string what) { violations_.push_back(std::move(what)); }

  void check(bool ended) {
    if (!ended) violate("the job did not end");
    if (root_->protocol_errors() != 0) violate("the root saw a protocol error");
    for (std::size_t i = 0; i < receivers_.size(); ++i) check_receiver(i);
    for (const Blow& kill : kills_) check_epoch_end(kill);
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

  // Every other live member that was in the dead one's epoch must have heard of its end in time.
  void check_epoch_end(const Blow& kill) {
    for (const auto& receiver : receivers_) {
      for (const auto& [epoch, at] : receiver->ended()) {
        if (at < kill.at || at - kill.at <= kEpochEndsWithin) continue;
        const bool first_after = std::ranges::none_of(
            receiver->ended(), [&](const auto& e) { return e.second >= kill.at && e.second < at; });
        if (first_after && options_.pauses == 0) violate("an epoch ended later than 1 s after a death");
      }
    }
  }

  // 0 if nothing was delivered.
  Duration send_to_last_delivery() const {
    Duration longest{};
    for (const auto& receiver : receivers_) {
      if (receiver->delivered_at() && root_->sent_at())
        longest = std::max(longest, *receiver->delivered_at() - *root_->sent_at());
    }
    return longest;
  }

  ScenarioResult result() {
    ScenarioResult result;
    result.trace_hash = simulation_.trace().hash();
    result.virtual_seconds = send_to_last_delivery().seconds();
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
    std::uint64_t ok = 0;
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
    }
    result.figures = {{"receivers_ok", static_cast<double>(ok)},
                      {"epochs", static_cast<double>(root_->epochs())},
                      {"blocks_planned", static_cast<double>(root_->blocks_planned())},
                      {"retransmitted", static_cast<double>(sum.retransmitted)},
                      {"timeouts", static_cast<double>(sum.timeouts)},
                      {"duplicates", static_cast<double>(sum.duplicates)},
                      {"out_of_order", static_cast<double>(sum.out_of_order)},
                      {"icrc_errors", static_cast<double>(icrc_errors)},
                      {"packets_in_place", static_cast<double>(in_place)},
                      {"packets_repaired", static_cast<double>(repaired)}};
    return result;
  }

  ScenarioOptions options_;
  sim::Simulation simulation_;
  sim::Network network_;
  sim::Channels channels_;
  std::unique_ptr<SimRoot> root_;
  std::vector<std::unique_ptr<SimReceiver>> receivers_;
  std::vector<Blow> kills_;
  std::vector<std::string> violations_;
};

}  // namespace

ScenarioResult run_bcast(const ScenarioOptions& options) {
  return World(options).run();
}

}  // namespace rdmc::sim_app
