// The processes that this process is connected to over the control plane. A part of the program that needs
// another process (a mesh of nodes, sockets, a membership, a transfer) dials that process here, and offers
// its own services to other processes here. Both processes prove the key (TLS) and introduce themselves. From
// then on they share one connection, on which each service has channels of its own. Two processes have only
// one control connection, even if many services use it, and even if both processes dial at the same time
// (Selection decides). When a process dies, the connection ends, and so the other process learns of the
// death.
//
// Peers uses a control loop, which must exist longer than the Peers. Functions must be called on the loop's
// thread, unless a comment says "any thread". Handlers are called on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/connector.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/listener.hpp"
#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

class Connection;

using OpenDone = std::move_only_function<void(Result<control::Channel>, Offer)>;

/// A handle of another process and of the connection to it. A connection without channels ends after some
/// time, but not while a Peer of it exists.
class Peer {
 public:
  const Identity& identity() const;
  /// The addresses of the connection's other end and of this end.
  Address address() const;
  Address local() const;
  /// True while the connection exists.
  bool is_connected() const;
  /// True if a connection to the process already existed before this dial, whatever it was used for.
  bool was_connected() const { return was_connected_; }
  /// Identifies the connection among all connections that this Peers object ever has. If two dials find the
  /// same process, both get the same number, as long as the connection exists.
  std::uint64_t number() const;
  /// True if this process has dialed the connection. False if the other process has dialed it.
  bool was_dialed_by_us() const;

  /// Opens a channel to a service of that process. `done` is called once, later, with the channel and the
  /// offer of the service. `done` should call start() on the channel. If the Peers object is destroyed
  /// before, `done` is not called. Errors: not_found if there is no such service, resource_limit, cancelled
  /// or peer_failed if the connection has ended, and the error with which the service refuses.
  void open(std::string service, Offer offer, OpenDone done);

 private:
  friend class Peers;
  friend class Request;
  Peer(std::shared_ptr<Connection> connection, bool was_connected)
      : connection_(std::move(connection)), was_connected_(was_connected) {}
  std::shared_ptr<Connection> connection_;
  bool was_connected_;
};

/// A peer's request for a channel to a service. A request that is destroyed without an answer is refused.
class Request {
 public:
  Request(std::shared_ptr<Connection> connection, ChannelId channel, Offer offer);
  Request(Request&&) noexcept = default;
  Request& operator=(Request&&) = delete;
  ~Request();

  const Identity& identity() const;
  Address address() const;
  Address local() const;
  /// The process that has sent the request.
  Peer peer() const { return {connection_, true}; }
  Offer& offer() { return offer_; }

  /// Accepts the channel. Errors: cancelled if the other side does not want the channel any more.
  Result<control::Channel> accept(Offer answer);
  void refuse(const Error& cause);

 private:
  std::shared_ptr<Connection> connection_;
  ChannelId channel_;
  Offer offer_;
};

class Peers {
 public:
  using RequestHandler = std::function<void(Request)>;
  using RefusedHandler = std::function<void(const Address&, const Error&)>;
  using DialDone = std::move_only_function<void(Result<Peer>)>;

  /// The handle of a service or of a dial. Destroying the handle ends the service or the dial. The handle may
  /// be destroyed on any thread. The destructor waits until no handler of the service or dial runs.
  class [[nodiscard]] Handle {
   public:
    Handle() = default;
    explicit Handle(std::shared_ptr<void> kept) : kept_(std::move(kept)) {}

   private:
    std::shared_ptr<void> kept_;
  };

  /// The largest number of unused connections that other processes have dialed. One more unused connection
  /// ends the oldest one.
  static constexpr std::size_t kMostUnused = 256;

  struct Counters {
    /// Connections that this process has dialed and on which the other side has answered.
    std::uint64_t dialed = 0;
    /// Connections that other processes have dialed and on which they have introduced themselves.
    std::uint64_t accepted = 0;
    std::uint64_t shared = 0;  ///< Dials that found an existing connection to the same process.
    /// Connections that ended because of a fault of the other side, or because there were too many
    /// connections.
    std::uint64_t refused = 0;
    /// Channels that were refused or ended because of a limit: there were too many channels, or too many
    /// bytes arrived on a channel that was not started.
    std::uint64_t channels_refused = 0;
  };

  /// Any thread. Makes a Peers object. `loop` must exist longer than the Peers. Errors: those of
  /// getrandom(2).
  static Result<std::shared_ptr<Peers>> create(control::ControlLoop& loop,
                                               const control::ChannelOptions& options);
  /// Any thread. Ends every connection.
  ~Peers();

  /// Any thread. Offers a service. `handler` gets every request for `service`, on every connection, until the
  /// handle is destroyed. Errors: already_exists if the name is in use already, invalid_argument if it is
  /// longer than kMostServiceBytes.
  Result<Handle> serve(std::string service, RequestHandler handler);

  /// Any thread. Accepts connections at `address`. `on_refused` is called on the loop's thread for each
  /// connection that ends before the other side has proved the key and introduced itself. Errors: those of
  /// control::Listener.
  Result<control::Listener> listen(const Address& address, const control::ListenOptions& options,
                                   RefusedHandler on_refused = {});
  /// Any thread. Accepts connections as the function above does, with a socket that is already listening.
  Result<control::Listener> adopt(Descriptor listening, const control::ListenOptions& options,
                                  RefusedHandler on_refused = {});

  /// Any thread. Connects to the process that listens at `host` and `port` now. If there is already a
  /// connection to that process, that connection is used and the new one is ended. `done` is called once, on
  /// the loop's thread. It is not called if the handle is destroyed before. Errors: those of
  /// control::connect; timed_out if the process does not introduce itself; protocol_error; version_mismatch.
  Handle dial(std::string host, std::uint16_t port, Duration deadline, DialDone done);

  /// Any thread. Calls dial() and then Peer::open(). If the handle is destroyed, both calls end. Errors:
  /// those of both functions.
  Handle open(std::string host, std::uint16_t port, Duration deadline, std::string service, Offer offer,
              OpenDone done);

  const Identity& identity() const;
  const control::ChannelOptions& options() const;
  control::ControlLoop& loop() const;
  /// Any thread. The number of connections on which both sides have introduced themselves.
  std::size_t connections() const;
  Counters counters() const;

 private:
  class Impl;
  explicit Peers(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::peer
