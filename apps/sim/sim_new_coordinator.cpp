#include "apps/sim/sim_new_coordinator.hpp"

#include <utility>

#include "apps/bcast-cli/recovery.hpp"

namespace rdmc::sim_app {

SimNewCoordinator::SimNewCoordinator(const session::LeadRequested& request, bcast::FileShape shape,
                                     const HostOptions& options, Connect connect, Time now)
    : self_(request.config.leader),
      shape_(shape),
      options_(options),
      connect_(std::move(connect)),
      coordinator_(request.config, request.participants) {
  coordinator_.start(now);
  drain(now);
}

void SimNewCoordinator::run(Time now) {
  for (auto& [member, end] : ends_) {
    for (const auto& message : end.receive()) coordinator_.on_message(member, message, now);
    if (end.has_just_ended()) coordinator_.on_closed(member, {Errc::peer_failed, "end of stream"}, now);
  }
  if (coordinator_.next_deadline() <= now) coordinator_.on_timer(now);
  drain(now);
}

void SimNewCoordinator::stand_down() {
  for (auto& [member, end] : ends_) end.close();
}

void SimNewCoordinator::from_own(std::span<const std::byte> message, Time now) {
  coordinator_.on_message(self_, message, now);
  drain(now);
}

void SimNewCoordinator::own_closed(Time now) {
  coordinator_.on_closed(self_, {Errc::peer_failed, "closed its channel"}, now);
  drain(now);
}

void SimNewCoordinator::drain(Time now) {
  using namespace session;
  while (auto output = coordinator_.poll()) {
    if (auto* send = std::get_if<Send>(&*output)) {
      if (send->member == self_)
        to_own_.emplace_back(std::move(send->bytes));
      else
        ends_.at(send->member).send(send->bytes);
    } else if (const auto* close = std::get_if<CloseChannel>(&*output)) {
      if (close->member == self_) {
        to_own_.emplace_back(std::nullopt);
      } else if (const auto end = ends_.find(close->member); end != ends_.end()) {
        end->second.close();
        // The end of a stream that this side has closed is not reported.
        end->second.forget_end();
      }
    } else if (const auto* connect = std::get_if<ConnectRequested>(&*output)) {
      if (connect->member != self_)
        ends_.insert_or_assign(connect->member, ControlEnd(connect_(connect->member)));
      coordinator_.on_connected(connect->member, now);
    } else if (const auto* needed = std::get_if<ParametersNeeded>(&*output)) {
      choose(*needed, now);
    }
  }
}

void SimNewCoordinator::choose(const session::ParametersNeeded& needed, Time now) {
  const auto epoch = bcast::plan_recovery(needed, shape_.blocks());
  if (!epoch) return coordinator_.interrupt(epoch.error(), now);
  if (!coordinator_.expected_report())
    return coordinator_.interrupt({Errc::peer_failed, "the sender died and nobody alive knows the digest"},
                                  now);
  const auto ranking = bcast::rank_by_rack(epoch->members, options_.racks);
  const auto plan = plan_epoch(ranking, shape_, epoch->blocks, options_);
  blocks_planned_ += epoch->blocks.count();
  coordinator_.form(needed.epoch, encode_epoch(plan, epoch->blocks), now, epoch->source, ranking.members);
}

}  // namespace rdmc::sim_app
