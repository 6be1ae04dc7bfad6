// The implementation of a `control::Channel` that `peer::Peers` has made. It shares its connection with other
// channels. Internal to this folder. It must be used on the control loop's thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/connection.hpp"

namespace rdmc::peer {

class SubChannel final : public control::ChannelEnd, public std::enable_shared_from_this<SubChannel> {
 public:
  /// The largest number of bytes from the peer that may wait on a channel that was not started.
  static constexpr std::size_t kMostWaitingBytes = 1 << 20;

  SubChannel(std::shared_ptr<Connection> connection, ChannelId id);

  void start(control::Channel::MessageHandler on_message, control::Channel::ClosedHandler on_closed) override;
  Result<void> send(std::vector<std::byte> message) override;
  void on_drained(control::Channel::DrainedHandler handler) override { on_drained_ = std::move(handler); }
  void close() override;
  void abandon() override;
  std::size_t queued_bytes() const override { return connection_->queued_bytes(); }
  const Address& peer() const override { return peer_; }
  Address local() const override { return local_; }
  std::optional<Duration> round_trip() const override { return connection_->round_trip(); }
  const std::shared_ptr<control::LoopCore>& core() const override { return core_; }

  // The following functions are called by the connection.
  void receive(Bytes body);
  void end(const Error& cause);
  void drained();

 private:
  enum class State : std::uint8_t { open, closing, over };

  void deliver();

  const std::shared_ptr<Connection> connection_;
  const ChannelId id_;
  const Address peer_, local_;
  const std::shared_ptr<control::LoopCore> core_;
  State state_ = State::open;
  bool started_ = false, abandoned_ = false, delivering_ = false, would_block_told_ = false;
  control::Channel::MessageHandler on_message_;
  control::Channel::ClosedHandler on_closed_;
  control::Channel::DrainedHandler on_drained_;
  std::deque<Bytes> waiting_;  ///< The messages that have arrived and are not delivered yet.
  std::size_t waiting_bytes_ = 0;
  std::optional<Error> end_;  ///< The cause to report after `waiting_` is delivered.
  control::Timer close_due_;
};

}  // namespace rdmc::peer
