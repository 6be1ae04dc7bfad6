// A stream of whole messages to one peer that has passed the handshake. Sessions, agents and stores
// communicate through channels. connect() and Listener make a channel that has a connection of its own.
// peer::Peers makes channels that share a connection. Messages arrive in order, each once, or the channel is
// closed with a precise cause. All functions and handlers run on the control loop's thread. Only the
// destructor may also run on another thread, where it waits until no handler runs. Destroying a channel
// without close() ends it at once.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

class ChannelEnd;
class LoopCore;

class Channel {
 public:
  using MessageHandler = std::move_only_function<void(std::vector<std::byte> message)>;
  using ClosedHandler = std::move_only_function<void(const Error& cause)>;
  using DrainedHandler = std::move_only_function<void()>;

  /// Only for the folders that implement channels. All others get channels from connect(), a Listener or
  /// peer::Peers.
  explicit Channel(std::shared_ptr<ChannelEnd> end);
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  /// Begins to read. Before this call nothing is read. Must be called at most once. `on_closed` is called
  /// exactly once, after the last message, unless the channel is destroyed first. It is never called from
  /// inside start(), send() or close(). Both handlers may destroy the channel. They are released after
  /// on_closed. The text of the cause names the peer, and its code is:
  ///   cancelled         either side closed in order, or the loop stopped
  ///   peer_failed       the peer ended without a goodbye (it died), reset, or became unreachable
  ///   timed_out         the peer was silent too long, or did not read everything in time after close()
  ///   protocol_error    the peer sent a message beyond the limit, or malformed bytes
  ///   corrupt           a TLS record was changed in the network
  ///   resource_limit    there was no memory for what the peer sent, or a handler threw std::bad_alloc
  void start(MessageHandler on_message, ClosedHandler on_closed);

  /// Queues a message. Errors: would_block if the queue is full (the caller can wait for on_drained),
  /// invalid_argument if the message is longer than the limit, cancelled or peer_failed if the channel is
  /// closed or about to be closed.
  Result<void> send(std::vector<std::byte> message);

  /// Sets a handler that is called each time that send() has returned would_block and the queue has then
  /// fallen to half of its limit.
  void on_drained(DrainedHandler handler);

  /// Sends what is queued and a goodbye, and waits until the peer has read everything. Then on_closed is
  /// called with cancelled. No more messages are delivered. The channel may be destroyed meanwhile, and the
  /// rest is still sent.
  void close();

  /// The number of bytes that send() has accepted and that are not yet handed to the kernel.
  std::size_t queued_bytes() const;
  const Address& peer() const;
  Address local() const;
  /// The smallest round-trip time to the peer that the kernel has measured. Nullopt if it has measured none.
  std::optional<Duration> round_trip() const;
  /// A value that both ends of the connection share (from TLS's exporter, RFC 9266). Nobody can make it equal
  /// in two connections, not even a process that is an end of both. Nullopt if the connection is not
  /// encrypted, or if several channels share it. Throws std::bad_alloc.
  std::optional<std::array<std::byte, 16>> binding() const;

 private:
  void abandon();
  std::shared_ptr<ChannelEnd> end_;
};

/// The implementation of a Channel: a TCP connection of its own, or a part of a connection that several
/// channels share. The functions are those of Channel.
class ChannelEnd {
 public:
  virtual ~ChannelEnd() = default;
  virtual void start(Channel::MessageHandler on_message, Channel::ClosedHandler on_closed) = 0;
  virtual Result<void> send(std::vector<std::byte> message) = 0;
  virtual void on_drained(Channel::DrainedHandler handler) = 0;
  virtual void close() = 0;
  /// Called when the Channel is destroyed. No handler is called after this. A close() that has begun is
  /// completed.
  virtual void abandon() = 0;
  virtual std::size_t queued_bytes() const = 0;
  virtual const Address& peer() const = 0;
  virtual Address local() const = 0;
  virtual std::optional<Duration> round_trip() const { return std::nullopt; }
  virtual std::optional<std::array<std::byte, 16>> binding() const { return std::nullopt; }
  virtual const std::shared_ptr<LoopCore>& core() const = 0;
};

}  // namespace rdmc::control
