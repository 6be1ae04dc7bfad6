// A stream of whole messages to one peer that has passed the handshake. Sessions, agents and stores
// communicate through channels. connect() and Listener make a channel that has a connection of its own.
// peer::Peers makes channels that share a connection. Messages arrive in order, and each message arrives
// once. If this is not possible, the channel is closed with a precise cause. All functions and handlers run
// on the control loop's thread, with one exception: the destructor may run on another thread, where it waits
// until no handler runs. Destroying a channel without close() ends it at once.
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

  /// Makes a channel. Must be called only by the folders that implement channels. All other code gets
  /// channels from connect(), a Listener or peer::Peers.
  explicit Channel(std::shared_ptr<ChannelEnd> end);
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  /// Begins to read. Before this call nothing is read. Must be called at most once. Unless the channel is
  /// destroyed first, `on_closed` is called exactly once, after the last message. It is never called from
  /// inside start(), send() or close(). Each handler may destroy the channel. The handlers are released after
  /// on_closed. The text of the cause names the peer. The code of the cause is one of these:
  ///   cancelled         either side closed the channel with close(), or the loop stopped
  ///   peer_failed       the peer died without a goodbye, reset the connection, or became unreachable
  ///   timed_out         the peer was silent too long, or did not read everything in time after close()
  ///   protocol_error    the peer sent a message beyond the limit, or malformed bytes
  ///   corrupt           a TLS record was changed in the network
  ///   resource_limit    there was no memory for what the peer sent, or a handler threw std::bad_alloc
  void start(MessageHandler on_message, ClosedHandler on_closed);

  /// Queues a message. Errors: would_block if the queue is full (the caller can wait for on_drained),
  /// invalid_argument if the message is longer than the limit, cancelled or peer_failed if the channel is
  /// closed or about to be closed.
  Result<void> send(std::vector<std::byte> message);

  /// Sets a handler. Each time that send() has returned would_block, the handler is called as soon as the
  /// queue is at most half full.
  void on_drained(DrainedHandler handler);

  /// Sends what is queued and a goodbye, and waits until the peer has read everything. Then on_closed is
  /// called with cancelled. From the call of close() on, no messages are delivered. The channel may be
  /// destroyed before on_closed, and what is queued is still sent.
  void close();

  /// Returns the number of bytes that send() has accepted and that are not yet handed to the kernel.
  std::size_t queued_bytes() const;
  const Address& peer() const;
  Address local() const;
  /// Returns the smallest round-trip time to the peer that the kernel has measured. Returns nullopt if it has
  /// measured none.
  std::optional<Duration> round_trip() const;
  /// Returns a value that both ends of the connection share and that differs between connections (from TLS's
  /// exporter, RFC 9266). No process can give two connections the same value, not even a process that is an
  /// end of both connections. Returns nullopt if the connection is not encrypted, or if several channels
  /// share it. Throws std::bad_alloc.
  std::optional<std::array<std::byte, 16>> binding() const;

 private:
  void abandon();
  std::shared_ptr<ChannelEnd> end_;
};

/// The implementation of a Channel. It is a TCP connection of its own, or a part of a connection that several
/// channels share. The functions are those of Channel.
class ChannelEnd {
 public:
  virtual ~ChannelEnd() = default;
  virtual void start(Channel::MessageHandler on_message, Channel::ClosedHandler on_closed) = 0;
  virtual Result<void> send(std::vector<std::byte> message) = 0;
  virtual void on_drained(Channel::DrainedHandler handler) = 0;
  virtual void close() = 0;
  /// Called when the Channel is destroyed. After this, no handler is called. If close() was called before,
  /// its work is still completed.
  virtual void abandon() = 0;
  virtual std::size_t queued_bytes() const = 0;
  virtual const Address& peer() const = 0;
  virtual Address local() const = 0;
  virtual std::optional<Duration> round_trip() const { return std::nullopt; }
  virtual std::optional<std::array<std::byte, 16>> binding() const { return std::nullopt; }
  virtual const std::shared_ptr<LoopCore>& core() const = 0;
};

}  // namespace rdmc::control
