// A receiver of the simulated bcast: the session's Participant, the data plane and a file on a simulated
// disk.
#pragma once

#include <optional>

#include "apps/sim/sim_file.hpp"
#include "apps/sim/sim_host.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::sim_app {

class SimReceiver final : public SimHost {
 public:
  SimReceiver(sim::Network& network, sim::HostId host, const HostOptions& options, bcast::FileShape shape,
              const DiskOptions& disk, std::uint64_t ring_slots);

  void connect(sim::ChannelEnd* end) { control_.emplace(end); }
  void run(Time now) override;
  Time next_deadline() override;

  const SimFile& file() const { return file_; }
  std::optional<session::Status> outcome() const { return outcome_; }
  const Error& cause() const { return cause_; }
  /// When the last of the file's blocks had come.
  std::optional<Time> delivered_at() const { return delivered_at_; }
  bool committed() const { return committed_; }
  bool delivered_twice() const { return twice_; }
  /// When each epoch was ended here.
  const std::vector<std::pair<Epoch, Time>>& ended() const { return ended_; }

 private:
  void on_delivered(Epoch epoch) override;
  void on_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) override;
  void handle(const session::ParticipantOutput& output);
  void drain();
  void stop_data();

  SimFile file_;
  std::uint64_t ring_slots_;
  session::Participant participant_;
  std::optional<ControlEnd> control_;
  std::optional<bcast::BlockMap> message_;
  std::unique_ptr<SimSink> sink_;
  bool greeted_ = false, committed_ = false, twice_ = false;
  Time now_{};
  std::optional<Time> delivered_at_;
  std::optional<session::Status> outcome_;
  Error cause_{};
  std::vector<std::pair<Epoch, Time>> ended_;
};

}  // namespace rdmc::sim_app
