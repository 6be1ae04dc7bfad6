// A stream of whole messages to one peer that has proved to hold the cluster key: what sessions, agents and
// stores talk through. Made by connect() and Listener, or by peer::Peers on a connection that several share.
// Messages arrive in order, each once, or the channel is closed with a precise cause. All functions and
// handlers run on the control loop's thread; only destroying is possible on any thread, and waits there until
// no handler runs. Destroying without close() cuts the connection at once.
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

  /// For the folders that carry channels; others get theirs from connect(), a Listener or peer::Peers.
  explicit Channel(std::shared_ptr<ChannelEnd> end);
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  /// Begins to read; before, nothing is. Once. `on_closed` is called exactly once, after the last message and
  /// never from inside start(), send() or close(), unless the channel is destroyed first. Both handlers may
  /// destroy the channel. They are released after on_closed. The cause names the peer:
  ///   cancelled         either side closed in order, or the loop stopped
  ///   peer_failed       the peer ended without a goodbye (it died), reset, or became unreachable
  ///   timed_out         the peer was silent too long, or did not read what close() flushed
  ///   protocol_error    a message beyond the limit, or bytes that make no sense
  ///   corrupt           a TLS record was changed on its way
  ///   resource_limit    there was no memory for what it has sent, or a handler threw std::bad_alloc
  void start(MessageHandler on_message, ClosedHandler on_closed);

  /// Queues a message. Errors: would_block (the queue is full: wait for on_drained), invalid_argument (longer
  /// than the limit), cancelled or peer_failed (it is closed or about to be).
  Result<void> send(std::vector<std::byte> message);

  /// `handler` is called each time that the queue has fallen to half after send() said would_block.
  void on_drained(DrainedHandler handler);

  /// Sends what is queued, says goodbye, and waits until the peer has read it all; then on_closed comes with
  /// cancelled. No message is delivered any more. The channel may be destroyed meanwhile: the flush goes on.
  void close();

  /// Bytes that send() accepted and the kernel has not.
  std::size_t queued_bytes() const;
  const Address& peer() const;
  Address local() const;
  /// The least time that the kernel has measured for bytes to the peer and back. None where it has measured
  /// none.
  std::optional<Duration> round_trip() const;
  /// A value that both ends of the connection share and nobody can make equal in two connections, not even
  /// who is an end of both (from TLS's exporter, RFC 9266). None where the connection is not encrypted, nor
  /// of a part of one that several channels share. Throws std::bad_alloc.
  std::optional<std::array<std::byte, 16>> binding() const;

 private:
  void abandon();
  std::shared_ptr<ChannelEnd> end_;
};

/// What a Channel is a handle of: a TCP connection of its own, or a part of one that several channels share.
/// The functions are the channel's.
class ChannelEnd {
 public:
  virtual ~ChannelEnd() = default;
  virtual void start(Channel::MessageHandler on_message, Channel::ClosedHandler on_closed) = 0;
  virtual Result<void> send(std::vector<std::byte> message) = 0;
  virtual void on_drained(Channel::DrainedHandler handler) = 0;
  virtual void close() = 0;
  /// The handle is gone: no handler is called any more. A close() under way is completed.
  virtual void abandon() = 0;
  virtual std::size_t queued_bytes() const = 0;
  virtual const Address& peer() const = 0;
  virtual Address local() const = 0;
  virtual std::optional<Duration> round_trip() const { return std::nullopt; }
  virtual std::optional<std::array<std::byte, 16>> binding() const { return std::nullopt; }
  virtual const std::shared_ptr<LoopCore>& core() const = 0;
};

}  // namespace rdmc::control
