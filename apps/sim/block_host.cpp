#include "apps/sim/block_host.hpp"

#include <algorithm>

namespace rdmc::sim_app {
namespace {

/// The size of a control frame with its headers. Its content has at most 48 bytes
/// (lib/group/control_frame.hpp).
constexpr std::uint64_t kControlBytes = 128;

}  // namespace

BlockHost::BlockHost(sim::Simulation& simulation, sim::FluidNetwork& network, BlockPost& post,
                     const BlockModel& model, const Watcher& watcher)
    : simulation_(simulation), network_(network), post_(post), model_(model), watcher_(watcher) {}

void BlockHost::place(sim::HostId self, std::uint32_t hosts) {
  self_ = self;
  hosts_ = hosts;
}

void BlockHost::join(std::uint32_t root, relay::RelayConfig config, std::uint64_t slots) {
  const auto group = static_cast<std::uint32_t>(seats_.size());
  config.rank = Rank{(value_of(self_) + hosts_ - root) % hosts_};
  config.slot_id = static_cast<std::uint8_t>(group);
  seats_.push_back(std::make_unique<Seat>(*this, group, root, config, slots));
}

Rank BlockHost::rank_of(sim::HostId host, const Seat& seat) const {
  return Rank{(value_of(host) + hosts_ - seat.root) % hosts_};
}

sim::HostId BlockHost::host_of(std::uint32_t group, Rank rank) const {
  return sim::HostId{(value_of(rank) + seats_[group]->root) % hosts_};
}

void BlockHost::Seat::post(Rank to, const BlockNote& note) {
  const auto* const write = std::get_if<relay::BlockWrite>(&note);
  host.network_.send(host.self_, host.host_of(group, to), write != nullptr ? write->bytes : kControlBytes,
                     host.post_.put({group, note}));
}

void BlockHost::Seat::violate(const std::string& what) {
  host.watcher_.violated("host " + std::to_string(value_of(host.self_)) + ", group " + std::to_string(group) +
                         ": " + what);
}

void BlockHost::on_arrival(sim::HostId from, std::uint64_t tag) {
  const auto [group, note] = post_.take(tag);
  Seat& seat = *seats_[group];
  const Rank sender = rank_of(from, seat);
  if (const auto* const write = std::get_if<relay::BlockWrite>(&note)) {
    seat.member.land(*write);
    network_.signal(self_, from, post_.put({group, AcknowledgedNote{write->block}}));
    core_free_ = std::max(core_free_, simulation_.now()) + model_.relay_cost;
    if (model_.jitter.ns > 0)
      core_free_ = core_free_ + nanoseconds(static_cast<std::int64_t>(simulation_.random().below(
                                    static_cast<std::uint64_t>(model_.jitter.ns))));
    completions_.push_back({group, sender, *write});
    simulation_.schedule(core_free_, *this, 0);
  } else if (const auto* const length = std::get_if<LengthNote>(&note)) {
    seat.member.on_note(sender, *length);
  } else if (const auto* const grant = std::get_if<relay::BlockGrant>(&note)) {
    seat.member.on_note(sender, *grant);
  } else {
    seat.member.on_note(sender, std::get<AcknowledgedNote>(note));
  }
}

void BlockHost::on_event(std::uint64_t) {
  const Completion next = completions_.front();
  completions_.pop_front();
  Seat& seat = *seats_[next.group];
  seat.member.complete(next.from, next.write);
  if (seat.delivered || !seat.member.is_delivered()) return;
  seat.delivered = true;
  simulation_.trace().record(simulation_.now(), sim::TraceKind::scenario, value_of(self_), next.group,
                             seat.member.is_whole() ? 1 : 0);
  watcher_.delivered(next.group, rank(next.group));
}

}  // namespace rdmc::sim_app
