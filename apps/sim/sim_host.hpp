// The base class of the root and the receivers in a simulated transfer of rdmc_bcast. It has a port, the
// software fabric, an engine, and the data plane of the transfer. The engine has no thread: the simulated
// process runs a turn whenever the simulation runs the process. This file also has the end of a control
// channel, which sends and receives whole messages.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>

#include "apps/bcast-cli/data_plane.hpp"
#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/ranking.hpp"
#include "controlplane/connect/framing.hpp"
#include "controlplane/session/participant.hpp"
#include "dataplane/base/bytes.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/fabric_poller.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/port/sim_port.hpp"
#include "dataplane/sim/channel.hpp"

namespace rdmc::sim_app {

/// One end of a control channel. It sends and receives whole messages.
class ControlEnd {
 public:
  explicit ControlEnd(sim::ChannelEnd* end) : end_(end), reader_(session::kMaxMessageBytes) {}

  void send(std::span<const std::byte> message) {
    end_->send(control::encode_length(static_cast<std::uint32_t>(message.size())));
    end_->send(message);
  }
  void close() { end_->close(); }
  /// Returns the messages that have arrived since the last call.
  std::deque<control::Message> receive() {
    std::vector<std::byte> bytes;
    std::deque<control::Message> messages;
    end_->receive(bytes);
    broken_ = broken_ || !reader_.feed(bytes, messages);
    return messages;
  }
  /// Returns true once, after the last message.
  bool has_just_ended() { return end_->ended() && !std::exchange(told_, true); }
  void forget_end() { told_ = true; }
  bool broken() const { return broken_; }

 private:
  sim::ChannelEnd* end_;
  control::FrameReader reader_;
  bool told_ = false, broken_ = false;
};

struct HostOptions {
  std::uint32_t mtu = 1500;
  bool selective_repeat = true;
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  bcast::RackOf racks;
  bool finds_stragglers = false;
  bool has_slow_uplinks = false;
};

class SimHost : public sim::Process {
 public:
  SimHost(sim::Network& network, sim::HostId host, const HostOptions& options)
      : simulation_(network.simulation()),
        process_(simulation_.add_process(host, *this)),
        random_(simulation_.random().next()),
        port_(network, process_, {.mtu = options.mtu}),
        fabric_(port_, {.entropy = [this] { return static_cast<std::uint32_t>(random_.next()); }}),
        poller_(fabric_),
        engine_(poller_, {}),
        data_plane_(fabric_, engine_,
                    {.delivered = [this](Epoch epoch) { on_delivered(epoch); },
                     .failed = [this](Epoch epoch, std::optional<Rank> peer,
                                      const Error& error) { on_failed(epoch, peer, error); }}) {
    engine_.add(poller_);
  }

  sim::ProcessId process() const { return process_; }
  const fabric::SoftwareFabric& fabric() const { return fabric_; }

 protected:
  virtual void on_delivered(Epoch epoch) = 0;
  virtual void on_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) = 0;

  Time data_deadline() const { return fabric_.next_deadline(); }
  /// Reports the members that lag behind, at most once in 100 ms, as rdmc_bcast does.
  void tell_lag(session::Participant& participant, Time now) {
    if (!running_ || now < tell_at_) return;
    participant.lags(*running_, data_plane_.find_lagging(), now);
    tell_at_ = now + milliseconds(100);
  }

  sim::Simulation& simulation_;
  sim::ProcessId process_;
  Random random_;
  port::SimPort port_;
  fabric::SoftwareFabric fabric_;
  fabric::FabricPoller poller_;
  engine::Engine engine_;
  bcast::DataPlane data_plane_;
  std::optional<Epoch> running_;

 private:
  Time tell_at_{};
};

/// Returns a member's report of a whole file.
inline session::Bytes digest_report(std::span<const std::byte> file) {
  session::Bytes report(8);
  store_be(report.data(), std::uint64_t{XXH3_64bits(file.data(), file.size())});
  return report;
}

/// Returns the plan of an epoch of these members. The first member is the source.
inline bcast::EpochPlan plan_epoch(const bcast::Ranking& ranking, bcast::FileShape shape,
                                   const bcast::BlockMap& message, const HostOptions& options,
                                   std::uint32_t stragglers = 0) {
  return {.algorithm = stragglers > 0 ? relay::Algorithm::site_trees : options.algorithm,
          .members = static_cast<std::uint32_t>(ranking.members.size()),
          .racks = ranking.racks,
          .stragglers = stragglers,
          .block_bytes = shape.block_size,
          .message_bytes = bcast::VirtualBlocks(shape, message).size(),
          .writes_in_flight = relay::kDefaultWritesInFlight,
          .selective_repeat = options.selective_repeat};
}

/// The length of the encoded epoch parameters before the sizes of the racks.
inline constexpr std::size_t kEpochHeader = 36;
/// Encodes the parameters of an epoch as the simulation's root sends them: the numbers of the plan, and the
/// map of the blocks that are sent.
inline session::Bytes encode_epoch(const bcast::EpochPlan& plan, const bcast::BlockMap& message) {
  const auto sizes = plan.racks.sizes();
  session::Bytes bytes(kEpochHeader + 4 * sizes.size());
  store_be(&bytes[0], plan.members);
  store_be(&bytes[4], plan.block_bytes);
  store_be(&bytes[8], plan.message_bytes);
  store_be(&bytes[16], plan.writes_in_flight);
  store_be(&bytes[20], std::uint32_t{plan.selective_repeat});
  store_be(&bytes[24], static_cast<std::uint32_t>(plan.algorithm));
  store_be(&bytes[28], static_cast<std::uint32_t>(sizes.size()));
  store_be(&bytes[32], plan.stragglers);
  for (std::size_t i = 0; i < sizes.size(); ++i) store_be(&bytes[kEpochHeader + 4 * i], sizes[i]);
  const auto map = message.encode();
  bytes.insert(bytes.end(), map.begin(), map.end());
  return bytes;
}

inline Result<std::pair<bcast::EpochPlan, bcast::BlockMap>> decode_epoch(std::span<const std::byte> bytes,
                                                                         std::uint64_t blocks) {
  const auto malformed = fail(Errc::protocol_error, "malformed epoch parameters");
  if (bytes.size() < kEpochHeader) return malformed;
  bcast::EpochPlan plan;
  plan.members = load_be<std::uint32_t>(&bytes[0]);
  plan.block_bytes = load_be<std::uint32_t>(&bytes[4]);
  plan.message_bytes = load_be<std::uint64_t>(&bytes[8]);
  plan.writes_in_flight = load_be<std::uint32_t>(&bytes[16]);
  plan.selective_repeat = load_be<std::uint32_t>(&bytes[20]) != 0;
  const auto algorithm = relay::algorithm_of(load_be<std::uint32_t>(&bytes[24]));
  std::vector<std::uint32_t> sizes(
      std::min<std::size_t>(load_be<std::uint32_t>(&bytes[28]), bytes.size() / 4));
  if (!algorithm || bytes.size() < kEpochHeader + 4 * sizes.size()) return malformed;
  plan.stragglers = load_be<std::uint32_t>(&bytes[32]);
  plan.algorithm = *algorithm;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = load_be<std::uint32_t>(&bytes[kEpochHeader + 4 * i]);
  if (auto racks = relay::Racks::of(sizes)) plan.racks = std::move(*racks);
  auto map = bcast::BlockMap::decode(bytes.subspan(kEpochHeader + 4 * sizes.size()), blocks);
  if (!map) return std::unexpected(map.error());
  return std::pair(plan, std::move(*map));
}

}  // namespace rdmc::sim_app
