#include "controlplane/peer/peers.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "controlplane/auth/random.hpp"
#include "controlplane/peer/connection.hpp"
#include "controlplane/peer/same_process.hpp"

namespace rdmc::peer {
namespace {

/// A connection without channels ends after this: at the side that dialed it, and later at the other one.
constexpr Duration kIdle = seconds(1), kIdleAtListener = seconds(30);

Result<Token> random_token() {
  Token token;
  if (auto filled = control::fill_random(token); !filled) return std::unexpected(filled.error());
  return token;
}

bool contains(const auto& values, const auto& value) {
  return std::ranges::find(values, value) != values.end();
}

}  // namespace

class Peers::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(control::ControlLoop& loop, control::ChannelOptions options, Identity identity)
      : loop_(loop), options_(std::move(options)), identity_(std::move(identity)) {}

  // -- any thread --

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
    // An empty handler is not to be wrapped: it would be called.
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
      // It may destroy the handle.
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
    for (auto& [raw, kept] : std::exchange(connections_, {})) kept.connection->close();
  }

  // -- the loop's thread --

  control::ControlLoop& loop() { return loop_; }
  const control::ChannelOptions& options() const { return options_; }
  const Identity& identity() const { return identity_; }
  std::size_t connections() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        connections_, [](const auto& entry) { return entry.second.connection->is_open(); }));
  }
  Counters counters() const {
    Counters all = counters_;
    for (const auto& [raw, kept] : connections_) all.channels_refused += raw->channels_refused();
    return all;
  }

 private:
  struct Kept {
    std::shared_ptr<Connection> connection;
    control::Timer due;  ///< the introduction, or the end of an idle connection
    std::uint64_t dial = 0;
    RefusedHandler on_refused;  ///< until it has introduced itself
    /// Ours: the numbers of the connections whose other sides were told that this one may cross with theirs.
    std::vector<std::uint64_t> told;
    std::vector<std::uint64_t> proved;  ///< dials of ours, not answered yet, that end at the same process
  };
  struct Dial {
    control::Connecting attempt;
    DialDone done;
  };

  /// Runs `end` on the loop's thread when the handle is destroyed.
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
    // The attempt ends later: it may be what calls us.
    loop_.post([attempt = std::move(dial.mapped().attempt)] {});
    dial.mapped().done(std::move(result));
  }

  /// `dial`: ours that it comes from; 0: the other side has made it.
  void add(control::Channel channel, std::uint64_t dial, RefusedHandler on_refused = {}) {
    if (closed_) return;
    const bool dials = dial != 0;
    const auto connection = std::make_shared<Connection>(loop_, ++last_connection_, std::move(channel), dials,
                                                         options_.max_message_bytes);
    Kept& kept = connections_[connection.get()];
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
                       .requested =
                           [weak = weak_from_this()](Connection& from, ChannelId id,
                                                     const std::string& service, Offer offer) {
                             if (const auto self = weak.lock())
                               self->requested(from, id, service, std::move(offer));
                           },
                       .ended = later(&Impl::ended),
                       .idle = later(&Impl::idle)});
    if (!dials) return make_room(*connection);
    const auto nonce = random_token(), secret = random_token();
    if (!nonce || !secret) return drop(*connection, nonce ? secret.error() : nonce.error());
    connection->nonce = *nonce;
    connection->secret = *secret;
    connection->introduce({.identity = identity_, .nonce = *nonce, .secret = *secret, .proofs = {}});
  }

  /// Of connections that others have made and do not use, the oldest goes when there are too many.
  void make_room(const Connection& newest) {
    std::size_t unused = 0;
    Connection* oldest = nullptr;
    for (const auto& [raw, kept] : connections_) {
      if (raw->dials() || raw->channels() != 0 || (raw != &newest && kept.connection.use_count() > 1))
        continue;
      ++unused;
      if (oldest == nullptr || raw->number < oldest->number) oldest = raw;
    }
    if (unused <= Peers::kMostUnused) return;
    ++counters_.refused;
    drop(*oldest, {Errc::resource_limit, "too many connections that nobody uses"});
  }

  void introduced(Connection& from, const Hello& hello) {
    Kept& kept = connections_.at(&from);
    kept.due = {};
    kept.on_refused = {};
    from.dials() ? answered(from, kept, hello) : asked(from, hello);
  }

  /// The other side has dialed: it gets our answer.
  void asked(Connection& from, const Hello& hello) {
    from.secret = hello.secret;
    ++counters_.accepted;
    Hello answer{.identity = identity_, .nonce = {}, .secret = {}, .proofs = {}, .crossing = {}};
    for (auto& [raw, other] : connections_) {
      // Not the other end of this one, if we have dialed ourselves.
      const bool may_cross = raw->dials() && !raw->identity && raw->secret != hello.secret;
      const bool is_known = raw != &from && raw->is_open() && raw->identity == hello.identity;
      auto& proofs = may_cross ? answer.crossing : answer.proofs;
      if ((!may_cross && !is_known) || proofs.size() >= kMostProofs) continue;
      proofs.push_back(proof_of(raw->secret, hello.identity, identity_, hello.nonce));
      if (may_cross) other.told.push_back(from.number);
      if (is_known && raw->channels() == 0) idle(*raw);  // it may be used soon
    }
    from.introduce(answer);
    idle(from);
  }

  /// We have dialed. Another connection to the same process serves as well, if the process can prove that it
  /// is the same. Of two that cross - neither side had an answer when it was asked - both choose the same
  /// one.
  void answered(Connection& from, Kept& kept, const Hello& hello) {
    ++counters_.dialed;
    const std::uint64_t dial = std::exchange(kept.dial, 0);
    std::vector<std::uint64_t> proved;
    std::shared_ptr<Connection> known, best = kept.connection;
    for (const auto& [raw, other] : connections_) {
      const bool is_answered = raw->identity.has_value();
      if (is_answered ? raw == &from || raw->identity != hello.identity : !raw->dials()) continue;
      const Proof proof = proof_of(raw->secret, identity_, hello.identity, from.nonce);
      const bool crosses = contains(hello.crossing, proof);
      // Whoever was not told of this one can only use its own.
      const bool is_only_choice = crosses && !raw->dials() && !contains(kept.told, raw->number);
      const bool is_known =
          is_only_choice || contains(hello.proofs, proof) || contains(other.proved, from.number);
      if (!is_known && !crosses) continue;
      if (!is_answered) kept.proved.push_back(raw->number);
      if (!raw->is_open()) continue;
      proved.push_back(raw->number);
      auto& choice = is_known ? known : best;
      if (!choice || is_preferred(*raw, *choice, identity_)) choice = other.connection;
    }
    const auto& used = known ? known : best;
    const bool is_shared = used != kept.connection;
    Peer peer(used, is_shared, std::move(proved));
    if (is_shared) ++counters_.shared;
    // The other side may use it, if it knows that it crosses with one of its own. Then it ends without
    // channels.
    if (is_shared && kept.told.empty())
      forget(from);
    else
      idle(from);
    finish_dial(dial, std::move(peer));
  }

  void requested(Connection& from, ChannelId id, const std::string& service, Offer offer) {
    Kept& kept = connections_.at(&from);
    kept.due = {};
    Request request(kept.connection, id, std::move(offer));
    const auto found = services_.find(service);
    if (found == services_.end())
      return request.refuse({Errc::not_found, "there is no service '" + service + "'"});
    const auto handler = found->second;  // it may end its own service
    handler(std::move(request));
  }

  void ended(Connection& connection, const Error& cause) {
    if (cause.code != Errc::cancelled && cause.code != Errc::peer_failed) ++counters_.refused;
    drop(connection, cause);
  }

  /// Nobody uses it now; whoever has just been told of it may soon.
  void idle(Connection& connection) {
    const auto found = connections_.find(&connection);
    if (found == connections_.end()) return;
    found->second.due = loop_.after(connection.dials() ? kIdle : kIdleAtListener,
                                    [weak = weak_from_this(), raw = &connection] {
                                      const auto self = weak.lock();
                                      if (!self || !self->connections_.contains(raw) || raw->channels() != 0)
                                        return;
                                      if (self->connections_.at(raw).connection.use_count() == 1)
                                        return self->forget(*raw);
                                      self->idle(*raw);
                                    });
  }

  void drop(Connection& connection, const Error& cause) {
    const auto found = connections_.find(&connection);
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
    auto kept = connections_.extract(&connection);
    if (kept.empty()) return;
    counters_.channels_refused += connection.channels_refused();
    kept.mapped().connection->close();
    // It may be what calls us, and so may its timer.
    loop_.post([gone = std::make_shared<Kept>(std::move(kept.mapped()))] {});
  }

  control::ControlLoop& loop_;
  const control::ChannelOptions options_;
  const Identity identity_;
  bool closed_ = false;
  std::map<std::string, RequestHandler> services_;
  std::map<Connection*, Kept> connections_;
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
