// The failover in a simulated bcast: a survivor becomes the coordinator after the root's death. It runs the
// session's Coordinator over streams to the other survivors, and over queues to the participant in its own
// process.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "apps/sim/sim_host.hpp"
#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::sim_app {

class SimNewCoordinator {
 public:
  /// The type of a function that opens a new stream to a member.
  using Connect = std::function<sim::ChannelEnd*(session::MemberId)>;

  SimNewCoordinator(const session::LeadRequested& request, bcast::FileShape shape, const HostOptions& options,
                    Connect connect, Time now);

  void run(Time now);
  Time next_deadline() const { return coordinator_.next_deadline(); }
  bool finished() const { return coordinator_.finished(); }
  bool stands_down_for(session::MemberId other) const { return coordinator_.stands_down_for(other); }
  /// Closes all streams.
  void stand_down();

  // The following functions are the channel of the participant in the same process.
  void from_own(std::span<const std::byte> message, Time now);
  void own_closed(Time now);
  /// Returns the messages for the participant in the same process, in order. nullopt means the end of the
  /// channel.
  std::deque<std::optional<session::Bytes>> take_own() { return std::exchange(to_own_, {}); }

  std::uint64_t blocks_planned() const { return blocks_planned_; }

 private:
  void drain(Time now);
  void choose(const session::ParametersNeeded& needed, Time now);

  session::MemberId self_;
  bcast::FileShape shape_;
  HostOptions options_;
  Connect connect_;
  session::Coordinator coordinator_;
  std::map<session::MemberId, ControlEnd> ends_;
  std::deque<std::optional<session::Bytes>> to_own_;
  std::uint64_t blocks_planned_ = 0;
};

}  // namespace rdmc::sim_app
