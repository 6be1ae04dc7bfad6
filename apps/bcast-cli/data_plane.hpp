// One member's data plane in a job, epoch after epoch: makes the group of an epoch, connects it, moves the
// epoch's message between the group and a store, and ends it. It has no thread and no clock of its own:
// everything is called on the engine's thread, and its events come on that thread too, from the engine's
// turns. The session's state machines say when; the simulator drives the same class.
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

/// What all members of an epoch must know alike.
struct EpochPlan {
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  std::uint32_t members = 1;
  relay::Racks racks{};             ///< nothing known, or all members
  std::uint32_t stragglers = 0;     ///< so many of the highest ranks, fewer than all members
  std::uint32_t block_bytes = 1;    ///< > 0
  std::uint64_t message_bytes = 0;  ///< of the epoch's message: the blocks that somebody lacks
  std::uint32_t writes_in_flight = relay::kDefaultWritesInFlight;
  bool selective_repeat = true;
  Duration give_up_after =
      milliseconds(536);  ///< a neighbour that acknowledges nothing for so long has failed
};

class DataPlane final : private engine::Poller, private group::Observer {
 public:
  struct Events {
    /// Every byte of the epoch's message is here and consumed (root: has been read).
    std::function<void(Epoch)> delivered;
    /// The epoch can't go on; `peer` is whom the data path gave up on, nobody if the fault is our own. Once
    /// an epoch, and once more if memory ran out.
    std::function<void(Epoch, std::optional<Rank> peer, const Error&)> failed;
  };

  DataPlane(fabric::Fabric& fabric, engine::Engine& engine, Events events)
      : fabric_(fabric), engine_(engine), events_(std::move(events)) {}
  ~DataPlane() override { end(); }
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  /// Ends the epoch before, if any, and makes the queue pairs of this one; returns the blob for each
  /// neighbour.
  Result<std::vector<session::PeerBlob>> form(Epoch epoch, Rank rank, const EpochPlan& plan);
  /// Errors: peer_failed (no queue pair with one of the neighbours, or a blob of somebody else: failed() has
  /// said of whom and why), invalid_argument (nothing formed).
  Result<void> connect(std::span<const session::PeerBlob> blobs);
  /// Moves the message; the store lives until end(). Errors: invalid_argument (a ring too small for the
  /// schedule).
  Result<void> start(group::Store& store);
  /// From its return on no byte of the store is touched by the data path or by a peer. Not from within an
  /// event.
  void end();

  /// What keeps this member's part in the epoch from going on.
  std::optional<relay::Wait> wait() const { return group_ ? group_->wait() : std::nullopt; }
  /// The neighbours that hold up this member's ring.
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
  std::unique_ptr<group::Peers> peers_;  // of this epoch: a member that was removed finds no queue pair
  std::unique_ptr<group::Group> group_;
  bool has_started_ = false;
};

}  // namespace rdmc::bcast
