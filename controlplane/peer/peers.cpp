#include "controlplane/peer/peers.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "controlplane/peer/connection.hpp"
#include "controlplane/peer/selection.hpp"

namespace rdmc::peer {
namespace {

/// The time after which a connection without channels ends. The side that dialed ends it after kIdle. The
/// other side ends it after kIdleAtListener, which is longer.
constexpr Duration kIdle = seconds(1), kIdleAtListener = seconds(30);

Result<Token> random_token() {
  Token token;
  if (auto filled = control::fill_random(token); !filled) return std::unexpected(filled.error());
  return token;
}

}  // namespace

class Peers::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(control::ControlLoop& loop, control::ChannelOptions options, Identity identity)
      : loop_(loop), options_(std::move(options)), identity_(std::move(identity)), selection_(identity_) {}

  // -- The functions of this section may be called from any thread. --

  Result<Handle> serve(std::string service, RequestHandler handler) {
    if (service.size() > kMostServiceBytes)
      return fail(Errc::invalid_argument, "a service's name of more than 512 bytes");
    return loop_.call([&]() -> Result<Handle> {
      if (!services_.emplace(service, std::move(handler)).second)
        return fail(Errc::already_exists, "'" + service + "' is served already");
      return handle([service](Impl& self) { self.services_.erase(service); });
    });
  }

  control::ListenHandlers listen_handlers(RefusedHandler on_refused) {
    control::ListenHandlers handlers;
    // If `on_refused` is empty, it must stay empty. A wrapper around it would not be empty, and would be
    // called.
    if (on_refused) handlers.on_refused = on_refused;
    handlers.on_channel = [weak = weak_from_this(),
                           on_refused = std::move(on_refused)](control::Channel channel) {
      if (const auto self = weak.lock()) self->add(std::move(channel), 0, on_refused);
    };
    return handlers;
  }

  Handle dial(std::string host, std::uint16_t port, Duration deadline, DialDone done) {
    const auto id = ++last_dial_;
    const auto is_wanted = std::make_shared<bool>(true);
    loop_.post([weak = weak_from_this(), is_wanted, id, host = std::move(host), port, deadline,
                done = std::move(done)]() mutable {
      if (const auto self = weak.lock(); self && *is_wanted && !self->closed_)
        self->begin_dial(id, std::move(host), port, deadline, std::move(done));
    });
    return handle([id, is_wanted](Impl& self) {
      *is_wanted = false;
      self.dials_.erase(id);
    });
  }

  Handle open(std::string host, std::uint16_t port, Duration deadline, std::string service, Offer offer,
              OpenDone done) {
    struct Asking {
      Handle dialing;
      OpenDone done;
    };
    const auto asking = std::make_shared<Asking>(Asking{{}, std::move(done)});
    const auto answer = [weak = std::weak_ptr(asking)](Result<control::Channel> channel, Offer theirs) {
      const auto asked = weak.lock();
      if (!asked || !asked->done) return;
      // The call of `done` may destroy the handle, so `done` is moved out first.
      std::exchange(asked->done, {})(std::move(channel), std::move(theirs));
    };
    asking->dialing =
        dial(std::move(host), port, deadline,
             [answer, service = std::move(service), offer = std::move(offer)](Result<Peer> peer) {
               if (!peer) return answer(std::unexpected(peer.error()), {});
               peer->open(service, offer, answer);
             });
    return handle([asking](Impl&) {
      asking->done = {};
      asking->dialing = {};
    });
  }

  void close() {
    closed_ = true;
    services_.clear();
    dials_.clear();
    for (auto& [number, kept] : std::exchange(connections_, {})) kept.connection->close();
  }

  // -- The functions below run on the loop's thread. --

  control::ControlLoop& loop() { return loop_; }
  const control::ChannelOptions& options() const { return options_; }
  const Identity& identity() const { return identity_; }
  std::size_t connections() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        connections_, [](const auto& entry) { return entry.second.connection->is_open(); }));
  }
  Counters counters() const {
    Counters all = counters_;
    for (const auto& [number, kept] : connections_)
      all.channels_refused += kept.connection->channels_refused();
    return all;
  }

 private:
  struct Kept {
    std::shared_ptr<Connection> connection;
    control::Timer due;  ///< Ends the wait for the introduction, or ends an idle connection.
    /// The dial that made the connection, until the dial is complete. 0 if there is no such dial.
    std::uint64_t dial = 0;
    RefusedHandler on_refused;  ///< Set until the other side has introduced itself.
  };
  struct Dial {
    control::Connecting attempt;
    DialDone done;
  };

  /// Returns a handle. When the handle is destroyed, `end` is called on the loop's thread.
  template <typename End>
  Handle handle(End end) {
    struct Ended {
      ~Ended() {
        if (const auto self = impl.lock()) self->loop_.call([&] { function(*self); });
      }
      std::weak_ptr<Impl> impl;
      End function;
    };
    return Handle(std::make_shared<Ended>(weak_from_this(), std::move(end)));
  }

  void begin_dial(std::uint64_t id, std::string host, std::uint16_t port, Duration deadline, DialDone done) {
    Dial& dial = dials_[id] = {.attempt = {}, .done = std::move(done)};
    dial.attempt = control::connect(loop_, std::move(host), port, options_, deadline,
                                    [weak = weak_from_this(), id](Result<control::Channel> channel) {
                                      const auto self = weak.lock();
                                      if (!self || !self->dials_.contains(id)) return;
                                      if (!channel)
                                        return self->finish_dial(id, std::unexpected(channel.error()));
                                      self->add(std::move(*channel), id);
                                    });
  }

  void finish_dial(std::uint64_t id, Result<Peer> result) {
    auto dial = dials_.extract(id);
    if (dial.empty()) return;
    // The attempt may be the caller of this function, so it is destroyed later.
    loop_.post([attempt = std::move(dial.mapped().attempt)] {});
    dial.mapped().done(std::move(result));
  }

  /// Adds a connection. `dial` is the dial that made the connection, or 0 if the other side has dialed it.
  void add(control::Channel channel, std::uint64_t dial, RefusedHandler on_refused = {}) {
    if (closed_) return;
    const bool dials = dial != 0;
    const auto connection = std::make_shared<Connection>(loop_, ++last_connection_, std::move(channel), dials,
                                                         options_.max_message_bytes);
    const std::uint64_t number = connection->number;
    Kept& kept = connections_[number];
    kept.connection = connection;
    kept.dial = dial;
    kept.on_refused = std::move(on_refused);
    kept.due = loop_.after(options_.handshake_deadline, [weak = weak_from_this(), raw = connection.get()] {
      if (const auto self = weak.lock())
        self->drop(*raw, {Errc::timed_out, to_string(raw->peer()) + ": does not introduce itself"});
    });
    const auto later = [weak = weak_from_this()](auto function) {
      return [weak, function](auto&... arguments) {
        if (const auto self = weak.lock(); self && !self->closed_) ((*self).*function)(arguments...);
      };
    };
    connection->start({.introduced = later(&Impl::introduced),
                       .asked = later(&Impl::asked),
                       .chosen = later(&Impl::chosen),
                       .requested =
                           [weak = weak_from_this()](Connection& from, ChannelId id,
                                                     const std::string& service, Offer offer) {
                             if (const auto self = weak.lock())
                               self->requested(from, id, service, std::move(offer));
                           },
                       .ended = later(&Impl::ended),
                       .idle = later(&Impl::idle)});
    if (!dials) return make_room(*connection);
    const auto nonce = random_token(), secret = secret_of(*connection);
    if (!nonce || !secret) return drop(*connection, nonce ? secret.error() : nonce.error());
    connection->introduce(selection_.dial(number, *nonce, *secret));
  }

  /// Returns the secret of a connection that this process has dialed. If the connection is encrypted, no
  /// process can give two connections the same secret.
  static Result<Token> secret_of(const Connection& connection) {
    if (const auto binding = connection.binding()) return *binding;
    return random_token();
  }

  /// If there are too many unused connections that other processes have dialed, ends the oldest of these
  /// connections.
  void make_room(const Connection& newest) {
    std::size_t unused = 0;
    Connection* oldest = nullptr;
    for (const auto& [number, kept] : connections_) {
      Connection& each = *kept.connection;
      const bool is_newest = &each == &newest;
      if (each.dials() || each.channels() != 0 || (!is_newest && kept.connection.use_count() > 1)) continue;
      ++unused;
      if (oldest == nullptr) oldest = &each;
    }
    if (unused <= Peers::kMostUnused) return;
    ++counters_.refused;
    drop(*oldest, {Errc::resource_limit, "too many connections that nobody uses"});
  }

  void introduced(Connection& from, const Hello& hello) {
    Kept& kept = connections_.at(from.number);
    kept.on_refused = {};
    if (from.dials()) {
      ++counters_.dialed;
      return follow(from, selection_.on_answer(from.number, hello));
    }
    if (const auto binding = from.binding(); binding && *binding != hello.secret)
      return ended(from, {Errc::protocol_error,
                          to_string(from.peer()) + ": its secret is not that of this TLS connection"});
    const auto nonce = random_token();
    if (!nonce) return drop(from, nonce.error());
    ++counters_.accepted;
    kept.due = {};
    from.introduce(selection_.answer(from.number, hello, *nonce));
    // The answer may show the other side that it has other connections to this process. The other side may
    // soon use one of these connections, so their idle timers start again.
    for (const auto& [number, other] : connections_)
      if (other.connection->identity == hello.identity && other.connection->channels() == 0)
        idle(*other.connection);
  }

  void asked(Connection& from, const Known& known) {
    const Selection::Step step = selection_.on_known(from.number, known);
    // The other side is about to use the chosen connection, so the idle timers start again.
    for (const auto& [number, other] : connections_)
      if (other.connection->identity == from.identity && other.connection->channels() == 0)
        idle(*other.connection);
    follow(from, step);
  }
  void chosen(Connection& from, const Choice& choice) {
    follow(from, selection_.on_choice(from.number, choice));
  }

  void follow(Connection& from, const Selection::Step& step) {
    if (step.say) {
      if (const auto* const known = std::get_if<Known>(&*step.say))
        from.ask(*known);
      else
        from.answer(std::get<Choice>(*step.say));
    }
    if (!step.use) return;
    Kept& kept = connections_.at(from.number);
    kept.due = {};
    const std::uint64_t dial = std::exchange(kept.dial, 0);
    const bool is_shared = *step.use != from.number;
    Peer peer(connections_.at(*step.use).connection, is_shared);
    if (peer.connection_->channels() == 0) idle(*peer.connection_);
    if (is_shared) {
      ++counters_.shared;
      forget(from);
    }
    finish_dial(dial, std::move(peer));
  }

  void requested(Connection& from, ChannelId id, const std::string& service, Offer offer) {
    Kept& kept = connections_.at(from.number);
    if (kept.dial == 0) kept.due = {};
    selection_.on_use(from.number);
    Request request(kept.connection, id, std::move(offer));
    const auto found = services_.find(service);
    if (found == services_.end())
      return request.refuse({Errc::not_found, "there is no service '" + service + "'"});
    // The handler may end its own service, so a copy of the handler is called.
    const auto handler = found->second;
    handler(std::move(request));
  }

  void ended(Connection& connection, const Error& cause) {
    if (cause.code != Errc::cancelled && cause.code != Errc::peer_failed) ++counters_.refused;
    drop(connection, cause);
  }

  /// Starts the idle timer of the connection again. The connection is not used now, but a dial that has just
  /// found the connection may use it soon.
  void idle(Connection& connection) {
    const auto found = connections_.find(connection.number);
    if (found == connections_.end() || found->second.dial != 0) return;
    found->second.due = loop_.after(connection.dials() ? kIdle : kIdleAtListener,
                                    [weak = weak_from_this(), number = connection.number] {
                                      const auto self = weak.lock();
                                      if (!self) return;
                                      const auto kept = self->connections_.find(number);
                                      if (kept == self->connections_.end()) return;
                                      const auto& unused = kept->second.connection;
                                      if (unused->channels() != 0) return;
                                      unused.use_count() == 1 ? self->forget(*unused) : self->idle(*unused);
                                    });
  }

  void drop(Connection& connection, const Error& cause) {
    const auto found = connections_.find(connection.number);
    if (found == connections_.end()) return;
    const std::uint64_t dial = found->second.dial;
    const auto on_refused = found->second.on_refused;
    const Address from = connection.peer();
    forget(connection);
    const bool silent = cause.code == Errc::cancelled;
    if (on_refused)
      on_refused(from,
                 silent ? Error{Errc::protocol_error, to_string(from) + ": closed without a word"} : cause);
    if (dial != 0) finish_dial(dial, std::unexpected(cause));
  }

  void forget(Connection& connection) {
    auto kept = connections_.extract(connection.number);
    if (kept.empty()) return;
    selection_.on_end(connection.number);
    counters_.channels_refused += connection.channels_refused();
    kept.mapped().connection->close();
    // The connection or its timer may be the caller of this function, so both are destroyed later.
    loop_.post([gone = std::make_shared<Kept>(std::move(kept.mapped()))] {});
  }

  control::ControlLoop& loop_;
  const control::ChannelOptions options_;
  const Identity identity_;
  bool closed_ = false;
  std::map<std::string, RequestHandler> services_;
  std::map<std::uint64_t, Kept> connections_;  ///< Keyed by the connection's number.
  Selection selection_;
  std::map<std::uint64_t, Dial> dials_;
  std::atomic<std::uint64_t> last_dial_ = 0;
  std::uint64_t last_connection_ = 0;
  Counters counters_;
};

// ---- Peers

Result<std::shared_ptr<Peers>> Peers::create(control::ControlLoop& loop,
                                             const control::ChannelOptions& options) {
  const auto incarnation = random_token();
  if (!incarnation) return std::unexpected(incarnation.error());
  const auto process = loop.call([] { return identity_of_self(); });
  auto impl = std::make_shared<Impl>(loop, options, Identity{*incarnation, process});
  return std::shared_ptr<Peers>(new Peers(std::move(impl)));
}

Peers::~Peers() {
  impl_->loop().call([this] { impl_->close(); });
}

Result<Peers::Handle> Peers::serve(std::string service, RequestHandler handler) {
  return impl_->serve(std::move(service), std::move(handler));
}
Result<control::Listener> Peers::listen(const Address& address, const control::ListenOptions& options,
                                        RefusedHandler on_refused) {
  return control::Listener::listen(impl_->loop(), address, options,
                                   impl_->listen_handlers(std::move(on_refused)));
}
Result<control::Listener> Peers::adopt(Descriptor listening, const control::ListenOptions& options,
                                       RefusedHandler on_refused) {
  return control::Listener::adopt(impl_->loop(), std::move(listening), options,
                                  impl_->listen_handlers(std::move(on_refused)));
}
Peers::Handle Peers::dial(std::string host, std::uint16_t port, Duration deadline, DialDone done) {
  return impl_->dial(std::move(host), port, deadline, std::move(done));
}
Peers::Handle Peers::open(std::string host, std::uint16_t port, Duration deadline, std::string service,
                          Offer offer, OpenDone done) {
  return impl_->open(std::move(host), port, deadline, std::move(service), std::move(offer), std::move(done));
}
const Identity& Peers::identity() const {
  return impl_->identity();
}
const control::ChannelOptions& Peers::options() const {
  return impl_->options();
}
control::ControlLoop& Peers::loop() const {
  return impl_->loop();
}
std::size_t Peers::connections() const {
  return impl_->loop().call([this] { return impl_->connections(); });
}
Peers::Counters Peers::counters() const {
  return impl_->loop().call([this] { return impl_->counters(); });
}

}  // namespace rdmc::peer
