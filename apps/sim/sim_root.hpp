// The root of the simulated bcast: the session's Coordinator, and beside it the root's Participant with its
// data plane and the source file.
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

  /// Receiver `member` (1 …) is at the other end.
  void connect(session::MemberId member, sim::ChannelEnd* end) { controls_.emplace(member, end); }
  void run(Time now) override;
  Time next_deadline() override;

  std::span<const std::byte> source() const { return source_; }
  /// When the first epoch's message was sent.
  std::optional<Time> sent_at() const { return sent_at_; }
  bool finished() const { return finished_; }
  const std::map<session::MemberId, std::pair<session::Status, Error>>& outcomes() const { return outcomes_; }
  std::uint64_t epochs() const { return coordinator_.counters().epochs; }
  std::uint64_t stragglers() const { return coordinator_.counters().stragglers; }
  std::uint64_t protocol_errors() const { return coordinator_.counters().protocol_errors; }
  /// Blocks that all epochs together sent, counted once an epoch.
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
  std::map<session::MemberId, Time> asked_at_;  ///< greeted then, and has not answered yet
  std::optional<bcast::BlockMap> message_;
  std::unique_ptr<SimSource> store_;
  bool started_ = false, finished_ = false;
  Time now_{};
  std::optional<Time> sent_at_;
  std::map<session::MemberId, std::pair<session::Status, Error>> outcomes_;
  std::uint64_t blocks_planned_ = 0;
};

}  // namespace rdmc::sim_app
