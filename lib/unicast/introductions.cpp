#include "lib/unicast/introductions.hpp"

#include <utility>

namespace rdmc::unicast {
namespace {

/// Between our answer and the message that the other side is connected, too.
constexpr Duration kReadyPatience = seconds(10);

/// The end of the control connection, or what the peer said of it, as the application hears it.
Error as_ours(const Error& cause) {
  const bool is_same = cause.code == Errc::cancelled || cause.code == Errc::protocol_error;
  return {is_same ? cause.code : Errc::peer_failed, "the peer has ended the connection: " + cause.what};
}

}  // namespace

Introductions::Introductions(DataPath& data_path, peer::Peers& peers, IntroductionOptions options,
                             Connected connected, Counters& counters)
    : data_path_(data_path),
      peers_(peers),
      options_(std::move(options)),
      connected_(std::move(connected)),
      counters_(counters) {}

Result<void> Introductions::listen(const Address& address) {
  auto service = peers_.serve(service_of(options_.name), [weak = weak_from_this()](peer::Request request) {
    if (const auto self = weak.lock()) self->on_request(std::move(request));
  });
  if (!service) return std::unexpected(service.error());
  service_ = std::move(*service);
  auto listener = peers_.listen(address, {.channel = peers_.options()});
  if (!listener) return std::unexpected(listener.error());
  listener_.emplace(std::move(*listener));
  return {};
}

std::shared_ptr<Link> Introductions::make_link() {
  return std::make_shared<Link>(ConnectionId{next_id_++}, options_.link,
                                [path = &data_path_] { path->kick(); });
}

Introductions::Entry* Introductions::find(ConnectionId id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

/// Runs `work` on the fabric thread with the link and then, unless the connection has been given up,
/// `then` on the loop's with the result. An error of `work` gives it up.
template <typename Work, typename Then>
void Introductions::on_engine(ConnectionId id, Work work, Then then) {
  data_path_.run([self = shared_from_this(), link = find(id)->link, work = std::move(work), then]() mutable {
    self->peers_.loop().post([self, id = link->id(), result = work(*link), then]() mutable {
      if (self->find(id) == nullptr) return;
      if (!result) return self->give_up(id, result.error());
      then(std::move(result));
    });
  });
}

Bytes Introductions::greeting() const {
  return encode(Greeting{options_.name, options_.private_data});
}

// ---- Whoever dials

void Introductions::connect(Endpoint::Target to, Duration timeout, Endpoint::ConnectDone done) {
  if (is_stopped_) return done(fail(Errc::cancelled, "the endpoint is being destroyed"));
  peers_.loop().post(
      [weak = weak_from_this(), to = std::move(to), timeout, done = std::move(done)]() mutable {
        if (const auto self = weak.lock()) self->begin(self->make_link(), to, timeout, std::move(done));
      });
}

void Introductions::begin(const std::shared_ptr<Link>& link, const Endpoint::Target& to, Duration timeout,
                          Endpoint::ConnectDone done) {
  const ConnectionId id = link->id();
  Entry& entry = entries_[id];
  entry.link = link;
  entry.done = std::move(done);
  entry.dials = true;
  if (is_closed_) return give_up(id, {Errc::cancelled, "the endpoint is being destroyed"});
  if (entries_.size() > options_.most_connections)
    return give_up(id, {Errc::resource_limit, "this endpoint has as many connections as it may"});
  entry.patience = peers_.loop().after(timeout, [weak = weak_from_this(), id, to] {
    const Error late{Errc::timed_out,
                     to.host + " port " + std::to_string(to.port) + ": no connection in time"};
    if (const auto self = weak.lock()) self->give_up(id, late);
  });
  on_engine(
      id,
      [path = &data_path_, link](Link& one) {
        path->add(link);
        return one.make_queue_pair(path->fabric());
      },
      [this, id, to, timeout](Result<fabric::ConnectionBlob> blob) {
        dial(id, to, timeout, std::move(*blob));
      });
}

void Introductions::dial(ConnectionId id, const Endpoint::Target& to, Duration timeout,
                         fabric::ConnectionBlob blob) {
  find(id)->dialing =
      peers_.open(to.host, to.port, timeout, service_of(to.name.empty() ? options_.name : to.name),
                  {greeting(), std::move(blob)},
                  [weak = weak_from_this(), id](Result<control::Channel> channel, const peer::Offer& theirs) {
                    if (const auto self = weak.lock()) self->on_answer(id, std::move(channel), theirs);
                  });
}

void Introductions::on_answer(ConnectionId id, Result<control::Channel> channel, const peer::Offer& theirs) {
  Entry* const entry = find(id);
  if (entry == nullptr) return;
  if (!channel) return give_up(id, channel.error());
  entry->channel.emplace(std::move(*channel));
  auto greeted = decode_greeting(theirs.greeting);
  if (!greeted) return give_up(id, greeted.error());
  entry->peer = {std::move(greeted->name), entry->channel->peer(), std::move(greeted->private_data)};
  start(id);
  on_engine(
      id, [blob = theirs.blob](Link& link) { return link.connect(blob); },
      [this, id](const Result<void>&) {
        if (auto said = find(id)->channel->send(encode(Ready{})); !said) return give_up(id, said.error());
        set_ready(id);
      });
}

// ---- Whoever is dialed

void Introductions::on_request(peer::Request request) {
  if (is_closed_) return request.refuse({Errc::cancelled, "the endpoint is being destroyed"});
  auto greeted = decode_greeting(request.offer().greeting);
  if (!greeted || entries_.size() >= options_.most_connections) {
    ++counters_.peers_refused;
    return request.refuse(greeted ? Error{Errc::resource_limit, "this endpoint has no room for more"}
                                  : greeted.error());
  }
  const auto link = make_link();
  const ConnectionId id = link->id();
  Entry& entry = entries_[id];
  entry.link = link;
  entry.peer = {std::move(greeted->name), request.address(), std::move(greeted->private_data)};
  auto blob = std::move(request.offer().blob);
  entry.request.emplace(std::move(request));
  entry.patience = peers_.loop().after(kReadyPatience, [weak = weak_from_this(), id] {
    if (const auto self = weak.lock()) self->give_up(id, {Errc::timed_out, "the peer does not get ready"});
  });
  on_engine(
      id,
      [path = &data_path_, link, blob = std::move(blob)](Link& one) -> Result<fabric::ConnectionBlob> {
        path->add(link);
        auto ours = one.make_queue_pair(path->fabric());
        if (!ours) return ours;
        if (auto connected = one.connect(blob); !connected) return std::unexpected(connected.error());
        return ours;
      },
      [this, id](Result<fabric::ConnectionBlob> ours) { answer(id, std::move(*ours)); });
}

void Introductions::answer(ConnectionId id, fabric::ConnectionBlob blob) {
  Entry& entry = *find(id);
  auto channel = entry.request->accept({greeting(), std::move(blob)});
  entry.request.reset();
  if (!channel) return give_up(id, channel.error());
  entry.channel.emplace(std::move(*channel));
  start(id);
}

// ---- Both

void Introductions::start(ConnectionId id) {
  find(id)->channel->start(
      [weak = weak_from_this(), id](const Bytes& message) {
        if (const auto self = weak.lock()) self->on_message(id, message);
      },
      [weak = weak_from_this(), id](const Error& cause) {
        if (const auto self = weak.lock()) self->on_closed(id, cause);
      });
}

void Introductions::on_message(ConnectionId id, const Bytes& bytes) {
  const Entry* const entry = find(id);
  if (entry == nullptr) return;
  const auto message = decode_message(bytes);
  if (!message) return give_up(id, message.error());
  if (const auto* const ended = std::get_if<Ended>(&*message)) return on_closed(id, ended->cause);
  if (entry->dials || entry->is_ready)
    return give_up(id, {Errc::protocol_error, "the peer is ready out of turn"});
  set_ready(id);
}

void Introductions::set_ready(ConnectionId id) {
  Entry& entry = *find(id);
  entry.is_ready = true;
  entry.patience = {};
  entry.dialing = {};
  data_path_.run([self = shared_from_this(), link = entry.link, peer = entry.peer,
                  done = std::exchange(entry.done, {}), dials = entry.dials]() mutable {
    if (!link->open(std::move(peer))) {  // it has ended in between
      if (done) done(fail(Errc::peer_failed, "the connection ended at once"));
      return;
    }
    ++(dials ? self->counters_.connections_made : self->counters_.connections_accepted);
    const Connection connection(link);
    if (done) return done(connection);
    if (self->connected_) self->connected_(connection);
  });
}

/// The peer has said that it ends the connection, or has gone.
void Introductions::on_closed(ConnectionId id, const Error& cause) {
  give_up(id, as_ours(cause));
}

/// Ends it at this side, whatever it has come to.
void Introductions::give_up(ConnectionId id, const Error& cause) {
  auto found = entries_.extract(id);
  if (found.empty()) return;
  Entry& entry = found.mapped();
  say_last(entry, cause);
  data_path_.run([path = &data_path_, link = std::move(entry.link), done = std::move(entry.done), cause] {
    path->end(*link, cause);
    if (done) done(std::unexpected(cause));
  });
}

void Introductions::forget(ConnectionId id, const Error& cause) {
  peers_.loop().post([weak = weak_from_this(), id, cause] {
    if (const auto self = weak.lock()) self->give_up(id, cause);
  });
}

/// To the peer, which may not hear it any more.
void Introductions::say_last(Entry& entry, const Error& cause) {
  if (entry.request) {
    ++counters_.peers_refused;
    std::exchange(entry.request, std::nullopt)->refuse(cause);
  }
  if (!entry.channel) return;
  static_cast<void>(entry.channel->send(encode(Ended{cause})));
  entry.channel->close();
}

void Introductions::close() {
  service_ = {};
  peers_.loop().call([this] {
    is_closed_ = true;
    std::vector<ConnectionId> under_way;
    for (const auto& [id, entry] : entries_)
      if (!entry.is_ready) under_way.push_back(id);
    for (const ConnectionId id : under_way) give_up(id, {Errc::cancelled, "the endpoint is being destroyed"});
  });
}

void Introductions::stop() {
  is_stopped_ = true;
  listener_.reset();
  peers_.loop().call([this] { entries_.clear(); });
}

}  // namespace rdmc::unicast
