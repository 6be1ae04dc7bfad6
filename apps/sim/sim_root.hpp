// The root of the simulated bcast: the session's Coordinator, and the root's own Participant with its data
// plane and the source file.
#pragma once

#include <map>
#include <optional>

#include "apps/sim/sim_file.hpp"
#include "apps/sim/sim_host.hpp"
#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::sim_app {

class SimRoot final : public SimHost {
 public:
  SimRoot(sim::Network& network, sim::HostId host, const HostOptions& options, std::vector<std::byte> source,
          bcast::FileShape shape, std::uint32_t receivers, std::uint64_t ring_slots);

  /// Sets the channel to the receiver `member`. The first receiver has the number 1.
  void connect(session::MemberId member, sim::ChannelEnd* end) { controls_.emplace(member, end); }
  void run(Time now) override;
  Time next_deadline() override;

  std::span<const std::byte> source() const { return source_; }
  /// Returns the time at which the first epoch's message was sent.
  std::optional<Time> sent_at() const { return sent_at_; }
  bool finished() const { return finished_; }
  const std::map<session::MemberId, std::pair<session::Status, Error>>& outcomes() const { return outcomes_; }
  std::uint64_t epochs() const { return coordinator_.counters().epochs; }
  std::uint64_t stragglers() const { return coordinator_.counters().stragglers; }
  std::uint64_t protocol_errors() const { return coordinator_.counters().protocol_errors; }
  /// Returns the number of blocks that all epochs together sent. A block counts once for each epoch.
  std::uint64_t blocks_planned() const { return blocks_planned_; }

 private:
  void on_delivered(Epoch) override {}
  void on_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) override;
  void handle(session::CoordinatorOutput& output);
  void handle(session::ParticipantOutput& output);
  void drain();
  void choose(session::ParametersNeeded needed);

  HostOptions options_;
  std::vector<std::byte> source_;
  bcast::FileShape shape_;
  std::uint64_t ring_slots_;
  session::Coordinator coordinator_;
  session::Participant participant_;
  std::map<session::MemberId, ControlEnd> controls_;
  /// The members that were greeted and have not answered yet, with the time of the greeting.
  std::map<session::MemberId, Time> asked_at_;
  std::optional<bcast::BlockMap> message_;
  std::unique_ptr<SimSource> store_;
  bool started_ = false, finished_ = false;
  Time now_{};
  std::optional<Time> sent_at_;
  std::map<session::MemberId, std::pair<session::Status, Error>> outcomes_;
  std::uint64_t blocks_planned_ = 0;
};

}  // namespace rdmc::sim_app
