// The data plane of one member of a transfer. For each epoch it makes a group, connects it, transfers the
// epoch's message between the group and a store, and ends the group. It has no thread and no clock of its
// own. All its functions must be called on the fabric thread. Its events are called on that thread, during
// the engine's turns. The session's state machines decide when its functions are called. The simulator uses
// the same class.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "controlplane/session/types.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "lib/group/group.hpp"

namespace rdmc::bcast {

/// The settings of an epoch. They must be the same at all members of the epoch.
struct EpochPlan {
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  std::uint32_t members = 1;
  relay::Racks racks{};           ///< empty if the racks are not known; otherwise the racks contain all
                                  ///< members
  std::uint32_t stragglers = 0;   ///< the number of stragglers, which have the highest ranks; must be less
                                  ///< than members
  std::uint32_t block_bytes = 1;  ///< must be positive
  /// The length of the epoch's message. It consists of the blocks that some member lacks.
  std::uint64_t message_bytes = 0;
  std::uint32_t writes_in_flight = relay::kDefaultWritesInFlight;
  bool selective_repeat = true;
  /// A member that is silent for this time counts as dead. A data link is given up after four times as long.
  Duration suspect_after = milliseconds(536);
};

class DataPlane final : private engine::Poller, private group::Observer {
 public:
  struct Events {
    /// Called at a receiver when every byte of the epoch's message has arrived and is consumed. Called at the
    /// root when every byte has been read.
    std::function<void(Epoch)> delivered;
    /// Called when the epoch cannot continue. `peer` is the member that the data path gave up on. `peer` is
    /// empty after an error of this process. Called once in an epoch, and a second time if memory runs out.
    std::function<void(Epoch, std::optional<Rank> peer, const Error&)> failed;
  };

  DataPlane(fabric::Fabric& fabric, engine::Engine& engine, Events events)
      : fabric_(fabric), engine_(engine), events_(std::move(events)) {}
  ~DataPlane() override { end(); }
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  /// Ends the previous epoch, if there is one, and makes the queue pairs of this epoch. Returns the
  /// connection blob for each neighbour.
  Result<std::vector<session::PeerBlob>> form(Epoch epoch, Rank rank, const EpochPlan& plan);
  /// Connects to the neighbours. Errors: peer_failed if a neighbour's blob is missing or wrong,
  /// invalid_argument if no epoch is formed. In the case of peer_failed, failed() has already reported the
  /// neighbour and the reason.
  Result<void> connect(std::span<const session::PeerBlob> blobs);
  /// Starts to transfer the message. The store must live until end(). Errors: invalid_argument if the ring
  /// buffer is too small for the schedule.
  Result<void> start(group::Store& store);
  /// Ends the epoch. After this function has returned, neither the data path nor a peer uses the store. Must
  /// not be called from within an event.
  void end();

  /// Returns the reason why this member's part of the epoch does not continue. Empty if nothing delays it.
  std::optional<relay::Wait> wait() const { return group_ ? group_->wait() : std::nullopt; }
  /// Returns the neighbours that delay this member's ring buffer.
  std::vector<Rank> find_lagging() { return group_ ? group_->find_lagging() : std::vector<Rank>(); }
  std::uint64_t blocks_received() const { return group_ ? group_->blocks_received(0) : 0; }

 private:
  std::size_t work(Time now) override { return has_started_ ? peers_->work(now) : 0; }
  Time next_deadline() const override { return has_started_ ? peers_->next_deadline() : Time::never(); }
  void on_out_of_memory() override;
  Result<void> give_up_on(Rank peer, const Error& error);
  group::Store* incoming(std::uint64_t, std::uint64_t) override { return nullptr; }
  void delivered(std::uint64_t) override { events_.delivered(epoch_); }
  void completed(std::uint64_t) override {}
  void failed(std::optional<Rank> peer, const Error& error) override {
    events_.failed(epoch_, peer == rank_ ? std::nullopt : peer, error);
  }

  fabric::Fabric& fabric_;
  engine::Engine& engine_;
  Events events_;
  Epoch epoch_{};
  Rank rank_{};
  EpochPlan plan_;
  // Contains the links of this epoch only. So packets of a member that was removed find no queue pair.
  std::unique_ptr<group::Peers> peers_;
  std::unique_ptr<group::Group> group_;
  bool has_started_ = false;
};

}  // namespace rdmc::bcast
