// A receiver of the simulated bcast: the session's Participant, the data plane, and a file on a simulated
// disk.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "apps/sim/sim_file.hpp"
#include "apps/sim/sim_host.hpp"
#include "apps/sim/sim_new_coordinator.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::sim_app {

class SimReceiver final : public SimHost {
 public:
  SimReceiver(sim::Network& network, sim::HostId host, const HostOptions& options, bcast::FileShape shape,
              const DiskOptions& disk, std::uint64_t ring_slots, SimNewCoordinator::Connect to_survivor);

  void connect(sim::ChannelEnd* end) { control_.emplace(end); }
  /// Called when another survivor has connected. That survivor is a new coordinator, or believes that it must
  /// become the new coordinator.
  void visit(sim::ChannelEnd* end) { pending_.emplace_back(end); }
  void run(Time now) override;
  Time next_deadline() override;

  const SimFile& file() const { return file_; }
  std::optional<session::Status> outcome() const { return outcome_; }
  const Error& cause() const { return cause_; }
  /// True if this receiver's own part has ended and, if it has been a new coordinator, this part has ended,
  /// too.
  bool is_over() const { return outcome_ && (!new_coordinator_ || new_coordinator_->finished()); }
  bool in_epoch() const { return in_epoch_; }
  bool was_formed() const { return formed_; }
  std::uint64_t orphaned() const { return participant_.counters().orphaned; }
  std::uint64_t led() const { return led_; }
  /// Returns the time at which the last block of the file arrived.
  std::optional<Time> delivered_at() const { return delivered_at_; }
  bool committed() const { return committed_at_.has_value(); }
  std::optional<Time> committed_at() const { return committed_at_; }
  bool delivered_twice() const { return twice_; }
  /// Returns the epochs that ended at this receiver, each with the time of its end.
  const std::vector<std::pair<Epoch, Time>>& ended() const { return ended_; }

 private:
  void on_delivered(Epoch epoch) override;
  void on_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) override;
  void handle(const session::ParticipantOutput& output);
  void drain();
  bool pass_own();
  void serve_pending_connections();
  bool follow(session::MemberId leader);
  std::optional<session::Bytes> report() const;
  void stop_data();

  HostOptions options_;
  SimNewCoordinator::Connect to_survivor_;
  SimFile file_;
  std::uint64_t ring_slots_;
  session::Participant participant_;
  std::optional<ControlEnd> control_;
  std::optional<bcast::BlockMap> message_;
  std::unique_ptr<SimSink> sink_;
  std::unique_ptr<SimSource> source_;
  std::deque<ControlEnd> pending_;
  std::unique_ptr<SimNewCoordinator> new_coordinator_;
  bool follows_own_ = false, is_source_ = false, in_epoch_ = false, formed_ = false;
  std::uint64_t led_ = 0;
  bool greeted_ = false, twice_ = false;
  Time now_{};
  std::optional<Time> delivered_at_, committed_at_;
  std::optional<session::Status> outcome_;
  Error cause_{};
  std::vector<std::pair<Epoch, Time>> ended_;
};

}  // namespace rdmc::sim_app
