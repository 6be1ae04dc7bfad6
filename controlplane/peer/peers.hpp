// The processes that this one talks to, over the control plane: whoever wants to talk to another process - a
// mesh of nodes, sockets, a membership, a transfer - dials it here, or serves here whoever dials. Both sides
// prove the key (TLS), say who they are, and from then on share one connection, on which each service has
// channels of its own. So two processes that have several things to do with each other have one control
// connection, also when both dial at once (Selection decides), and each learns from its end that the other
// has died.
//
// It lives on a control loop, which outlives it. Functions and handlers run on the loop's thread, except
// where "any thread" is said.
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

/// Another process, as long as there is a connection to it. A connection that nobody uses ends after a while,
/// but not while somebody has a Peer of it.
class Peer {
 public:
  const Identity& identity() const;
  /// The other end, and ours, of the connection.
  Address address() const;
  Address local() const;
  /// The connection is there.
  bool is_connected() const;
  /// True: a connection to it existed before this dial, for whatever purpose.
  bool was_connected() const { return was_connected_; }
  /// Names the connection among all that these Peers ever have. Two dials that find the same process have the
  /// same number, as long as the connection is there.
  std::uint64_t number() const;
  /// This process has made the connection, and not the other one.
  bool was_dialed_by_us() const;

  /// Opens a channel to a service of that process. `done` is called once, later, with the channel and what
  /// the service offers; start() the channel there. `done` is not called once the Peers are gone. Errors:
  /// not_found (it has no such service), resource_limit, cancelled and peer_failed (the connection is over),
  /// and what the service refuses with.
  void open(std::string service, Offer offer, OpenDone done);

 private:
  friend class Peers;
  friend class Request;
  Peer(std::shared_ptr<Connection> connection, bool was_connected)
      : connection_(std::move(connection)), was_connected_(was_connected) {}
  std::shared_ptr<Connection> connection_;
  bool was_connected_;
};

/// A process that wants a channel to a service. Destroyed without an answer it is refused.
class Request {
 public:
  Request(std::shared_ptr<Connection> connection, ChannelId channel, Offer offer);
  Request(Request&&) noexcept = default;
  Request& operator=(Request&&) = delete;
  ~Request();

  const Identity& identity() const;
  Address address() const;
  Address local() const;
  /// Who asks.
  Peer peer() const { return {connection_, true}; }
  Offer& offer() { return offer_; }

  /// Errors: cancelled (the other side wants it no longer).
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

  /// Serves or dials until it is destroyed. Any thread; its destructor waits until no handler of it runs.
  class [[nodiscard]] Handle {
   public:
    Handle() = default;
    explicit Handle(std::shared_ptr<void> kept) : kept_(std::move(kept)) {}

   private:
    std::shared_ptr<void> kept_;
  };

  /// The most connections that others have made and on which nothing runs. One more replaces the oldest.
  static constexpr std::size_t kMostUnused = 256;

  struct Counters {
    std::uint64_t dialed = 0;    ///< connections that we made
    std::uint64_t accepted = 0;  ///< connections that others made, and on which they introduced themselves
    std::uint64_t shared = 0;    ///< dials that found a connection to that process there already
    std::uint64_t refused = 0;   ///< connections that ended for what the other side said, or for want of room
    std::uint64_t channels_refused =
        0;  ///< channels that broke a bound: too many, or too much on an unused one
  };

  /// `loop` outlives it. Any thread. Errors: those of getrandom(2).
  static Result<std::shared_ptr<Peers>> create(control::ControlLoop& loop,
                                               const control::ChannelOptions& options);
  /// Ends every connection. Any thread.
  ~Peers();

  /// Any thread: `handler` gets whoever asks for `service`, on every connection, until the handle is
  /// destroyed. Errors: already_exists (the name is served), invalid_argument (longer than
  /// kMostServiceBytes).
  Result<Handle> serve(std::string service, RequestHandler handler);

  /// Any thread: lets others connect. `on_refused` is told of connections that end before the other side has
  /// proved the key and introduced itself, on the loop's thread. Errors: those of control::Listener.
  Result<control::Listener> listen(const Address& address, const control::ListenOptions& options,
                                   RefusedHandler on_refused = {});
  /// The same on a socket that listens already.
  Result<control::Listener> adopt(Descriptor listening, const control::ListenOptions& options,
                                  RefusedHandler on_refused = {});

  /// Any thread: finds the process that listens at `host` and `port` now. If there is a connection to that
  /// process already, the one that asks ends again. `done` is called once, on the loop's thread, unless the
  /// handle is destroyed before. Errors: those of control::connect; timed_out (it does not introduce itself),
  /// protocol_error, version_mismatch.
  Handle dial(std::string host, std::uint16_t port, Duration deadline, DialDone done);

  /// dial() and then Peer::open(), until the handle is destroyed. Errors: those of both.
  Handle open(std::string host, std::uint16_t port, Duration deadline, std::string service, Offer offer,
              OpenDone done);

  const Identity& identity() const;
  const control::ChannelOptions& options() const;
  control::ControlLoop& loop() const;
  /// Connections on which both sides have introduced themselves; any thread.
  std::size_t connections() const;
  Counters counters() const;

 private:
  class Impl;
  explicit Peers(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::peer
