#include "lib/unicast/introductions.hpp"

#include <new>
#include <utility>

#include "dataplane/base/no_memory.hpp"

namespace rdmc::unicast {
namespace {

/// The time limit on the accepting side, from the peer's request to its Ready.
constexpr Duration kReadyPatience = seconds(10);

/// Converts a cause that came over the control connection to the error that the application gets.
Error as_ours(const Error& cause) {
  const bool is_same = cause.code == Errc::cancelled || cause.code == Errc::protocol_error;
  return {is_same ? cause.code : Errc::peer_failed, "the peer has ended the connection: " + cause.what};
}

}  // namespace

Introductions::Introductions(DataPath& data_path, peer::Peers& peers, IntroductionOptions options,
                             Counters& counters)
    : data_path_(data_path), peers_(peers), options_(std::move(options)), counters_(counters) {}

Result<void> Introductions::listen(const Address& address) {
  auto service = peers_.serve(service_of(options_.name), [weak = weak_from_this()](peer::Request request) {
    if (const auto self = weak.lock()) self->on_request(std::move(request));
  });
  if (!service) return std::unexpected(service.error());
  auto listener = peers_.listen(address, {.channel = peers_.options()});
  if (!listener) return std::unexpected(listener.error());
  service_ = std::move(*service);
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

/// Wraps `step` as a function that the control loop can run later. The function does nothing if the
/// connection was given up before it runs. If `step` runs out of memory, the connection is given up.
template <typename Step>
auto Introductions::step(ConnectionId id, Step step) {
  return [weak = weak_from_this(), id, step = std::move(step)]<typename... With>(With&&... with) mutable {
    const auto self = weak.lock();
    if (!self || self->find(id) == nullptr) return;
    try {
      step(*self, std::forward<With>(with)...);
    } catch (const std::bad_alloc&) {
      self->give_up(id, no_memory());
    }
  };
}

/// Runs `work` with the link on the fabric thread, and then runs `then` as a step with the result. If `work`
/// returns an error, the connection is given up.
template <typename Work, typename Then>
void Introductions::on_engine(ConnectionId id, Work work, Then then) {
  auto next = step(id, [id, then = std::move(then)](Introductions& self, auto result) mutable {
    if (!result) return self.give_up(id, std::move(result.error()));
    then(self, std::move(result));
  });
  data_path_.run([self = shared_from_this(), link = find(id)->link, work = std::move(work),
                  next = std::move(next)]() mutable {
    using Value = std::invoke_result_t<Work&, Link&>;
    try {
      Value result = link->is_closed() ? Value(fail(Errc::cancelled, "the connection has ended in between"))
                                       : work(*link);
      self->peers_.loop().post(
          [next = std::move(next), result = std::move(result)]() mutable { next(std::move(result)); });
    } catch (const std::bad_alloc&) {
      link->ask_for_end(no_memory());
    }
  });
}

Bytes Introductions::greeting(const Bytes& private_data) const {
  return encode(Greeting{options_.name, private_data.empty() ? options_.private_data : private_data});
}

// ---- Functions of the dialing side

void Introductions::connect(Endpoint::Target to, Duration timeout, Endpoint::ConnectDone done) {
  // The endpoint is being destroyed. Only an upcall can call this function now.
  if (is_closed_) {
    if (done) done(fail(Errc::cancelled, "the endpoint is being destroyed"));
    return;
  }
  const auto link = make_link();
  auto task = [weak = weak_from_this(), link, to = std::move(to), timeout] {
    if (const auto self = weak.lock()) self->begin(link, to, timeout);
  };
  link->set_done(std::move(done));
  data_path_.add(link);
  try {
    peers_.loop().post(std::move(task));
  } catch (const std::bad_alloc&) {
    link->ask_for_end(no_memory());
  }
}

void Introductions::begin(const std::shared_ptr<Link>& link, const Endpoint::Target& to, Duration timeout) {
  const ConnectionId id = link->id();
  const auto refuse = [&](Errc code, const char* what) { link->ask_for_end({code, what}); };
  try {
    if (is_closed_) return refuse(Errc::cancelled, "the endpoint is being destroyed");
    if (to.name.size() > kMostNameBytes || to.private_data.size() > kMostPrivateBytes)
      return refuse(Errc::invalid_argument,
                    "a name of more than 255 bytes, or private data of more than 4096");
    if (entries_.size() >= options_.most_connections)
      return refuse(Errc::resource_limit, "this endpoint has as many connections as it may");
    Entry& entry = entries_[id];
    entry.link = link;
    entry.dials = true;
    entry.patience = peers_.loop().after(
        timeout, step(id, [id, to](Introductions& self) {
          self.give_up(id, {Errc::timed_out,
                            to.host + " port " + std::to_string(to.port) + ": no connection in time"});
        }));
    on_engine(
        id, [path = &data_path_](Link& one) { return one.make_queue_pair(path->fabric()); },
        [id, to, timeout](Introductions& self, Result<fabric::ConnectionBlob> blob) {
          self.dial(id, to, timeout, std::move(*blob));
        });
  } catch (const std::bad_alloc&) {
    link->ask_for_end(no_memory());
    give_up(id, no_memory());
  }
}

void Introductions::dial(ConnectionId id, const Endpoint::Target& to, Duration timeout,
                         fabric::ConnectionBlob blob) {
  const std::string name = to.name.empty() ? options_.name : to.name;
  std::string place = "endpoint '" + name + "' at " + to.host + " port " + std::to_string(to.port) + ": ";
  auto answered =
      step(id, [id, place = std::move(place)](Introductions& self, Result<control::Channel> channel,
                                              const peer::Offer& theirs) {
        if (!channel && channel.error().code == Errc::not_found)
          return self.give_up(id, {Errc::not_found, place + channel.error().what});
        self.on_answer(id, std::move(channel), theirs);
      });
  find(id)->dialing = peers_.open(to.host, to.port, timeout, service_of(name),
                                  {greeting(to.private_data), std::move(blob)}, std::move(answered));
}

void Introductions::on_answer(ConnectionId id, Result<control::Channel> channel, const peer::Offer& theirs) {
  Entry& entry = *find(id);
  if (!channel) return give_up(id, channel.error());
  entry.channel.emplace(std::move(*channel));
  auto greeted = decode_greeting(theirs.greeting);
  if (!greeted) return give_up(id, greeted.error());
  entry.peer = {std::move(greeted->name), entry.channel->peer(), std::move(greeted->private_data)};
  start(id);
  on_engine(
      id, [blob = theirs.blob](Link& link) { return link.connect(blob); },
      [id](Introductions& self, const Result<void>&) {
        if (auto said = self.find(id)->channel->send(encode(Ready{})); !said)
          return self.give_up(id, said.error());
        self.set_ready(id);
      });
}

// ---- Functions of the accepting side

void Introductions::on_request(peer::Request request) {
  if (is_closed_) return request.refuse({Errc::cancelled, "the endpoint is being destroyed"});
  auto greeted = decode_greeting(request.offer().greeting);
  if (!greeted || entries_.size() >= options_.most_connections) {
    ++counters_.peers_refused;
    return request.refuse(greeted ? Error{Errc::resource_limit, "this endpoint has no room for more"}
                                  : greeted.error());
  }
  const ConnectionId id{next_id_.load()};  // the id that make_link() uses next
  try {
    receive(make_link(), std::move(request), std::move(*greeted));
  } catch (const std::bad_alloc&) {
    give_up(id, no_memory());
  }
}

void Introductions::receive(const std::shared_ptr<Link>& link, peer::Request request, Greeting greeted) {
  const ConnectionId id = link->id();
  Entry& entry = entries_[id];
  entry.link = link;
  entry.peer = {std::move(greeted.name), request.address(), std::move(greeted.private_data)};
  auto blob = std::move(request.offer().blob);
  entry.request.emplace(std::move(request));
  entry.patience = peers_.loop().after(kReadyPatience, step(id, [id](Introductions& self) {
                                         self.give_up(id, {Errc::timed_out, "the peer does not get ready"});
                                       }));
  data_path_.add(link);
  on_engine(
      id,
      [path = &data_path_, accept = &options_.accept, peer = entry.peer,
       blob = std::move(blob)](Link& one) -> Result<fabric::ConnectionBlob> {
        if (*accept)
          if (auto accepted = (*accept)(peer); !accepted) return std::unexpected(std::move(accepted.error()));
        auto ours = one.make_queue_pair(path->fabric());
        if (!ours) return ours;
        if (auto connected = one.connect(blob); !connected) return std::unexpected(connected.error());
        return ours;
      },
      [id](Introductions& self, Result<fabric::ConnectionBlob> ours) { self.answer(id, std::move(*ours)); });
}

void Introductions::answer(ConnectionId id, fabric::ConnectionBlob blob) {
  Entry& entry = *find(id);
  auto channel = entry.request->accept({greeting({}), std::move(blob)});
  entry.request.reset();
  if (!channel) return give_up(id, channel.error());
  entry.channel.emplace(std::move(*channel));
  start(id);
}

// ---- Functions of both sides

void Introductions::start(ConnectionId id) {
  find(id)->channel->start(
      step(id, [id](Introductions& self, const Bytes& message) { self.on_message(id, message); }),
      step(id, [id](Introductions& self, const Error& cause) { self.on_closed(id, cause); }));
}

void Introductions::on_message(ConnectionId id, const Bytes& bytes) {
  const Entry& entry = *find(id);
  const auto message = decode_message(bytes);
  if (!message) return give_up(id, message.error());
  if (const auto* const ended = std::get_if<Ended>(&*message)) return on_closed(id, ended->cause);
  if (entry.dials || entry.is_ready)
    return give_up(id, {Errc::protocol_error, "the peer is ready out of turn"});
  set_ready(id);
}

void Introductions::set_ready(ConnectionId id) {
  Entry& entry = *find(id);
  data_path_.run(
      [self = shared_from_this(), link = entry.link, peer = entry.peer, dials = entry.dials]() mutable {
        if (!link->open(std::move(peer))) return;  // the link has ended in the meantime
        ++(dials ? self->counters_.connections_made : self->counters_.connections_accepted);
        const auto done = link->take_done();
        const Connection connection(link);
        try {
          if (done)
            done(connection);
          else if (self->options_.connected)
            self->options_.connected(connection);
        } catch (const std::bad_alloc&) {
          self->data_path_.end(*link, no_memory(), true);
        }
      });
  entry.is_ready = true;
  entry.patience = {};
  entry.dialing = {};
}

/// Called when the peer has ended the connection or has gone.
void Introductions::on_closed(ConnectionId id, const Error& cause) {
  give_up(id, as_ours(cause));
}

/// Ends the connection on this side, in any state. If memory runs out, the peer gets no cause.
void Introductions::give_up(ConnectionId id, Error cause) {
  auto found = entries_.extract(id);
  if (found.empty()) return;
  Entry& entry = found.mapped();
  try {
    say_last(entry, cause);
  } catch (const std::bad_alloc&) {
  }
  entry.link->ask_for_end(std::move(cause));
}

void Introductions::forget(ConnectionId id, const Error& cause) {
  peers_.loop().post(step(id, [id, cause](Introductions& self) { self.give_up(id, cause); }));
}

/// Sends the cause to the peer. The message may be lost.
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
  is_closed_ = true;
  peers_.loop().call([this] {
    std::vector<ConnectionId> under_way;
    for (const auto& [id, entry] : entries_)
      if (!entry.is_ready) under_way.push_back(id);
    for (const ConnectionId id : under_way) give_up(id, {Errc::cancelled, "the endpoint is being destroyed"});
  });
}

void Introductions::stop() {
  listener_.reset();
  peers_.loop().call([this] { entries_.clear(); });
}

}  // namespace rdmc::unicast
