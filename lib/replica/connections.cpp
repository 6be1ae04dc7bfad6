#include "lib/replica/connections.hpp"

#include <string>
#include <utility>

#include "dataplane/base/bytes.hpp"

namespace rdmc::replica {
namespace {

constexpr const char* kService = "rank program";
/// It increases when the greeting or the records change.
constexpr std::uint32_t kVersion = 4;
constexpr std::size_t kGreetingBytes = 16;

peer::Bytes greeting(const Connections::Identity& own) {
  peer::Bytes bytes(kGreetingBytes);
  store_be(bytes.data(), kVersion);
  store_be(bytes.data() + 4, static_cast<std::uint32_t>(own.process));
  store_be(bytes.data() + 8, own.incarnation);
  return bytes;
}

Result<Connections::Identity> read_greeting(const peer::Bytes& bytes, std::uint32_t processes) {
  if (bytes.size() < 4) return fail(Errc::protocol_error, "a greeting that is cut off");
  if (load_be<std::uint32_t>(bytes.data()) != kVersion)
    return fail(Errc::version_mismatch, "the other process has another version of the rank library");
  if (bytes.size() != kGreetingBytes) return fail(Errc::protocol_error, "a greeting of a wrong length");
  const auto process = load_be<std::uint32_t>(bytes.data() + 4);
  if (process >= processes) return fail(Errc::protocol_error, "a process that the run does not have");
  return Connections::Identity{ProcessId{process}, load_be<std::uint64_t>(bytes.data() + 8)};
}

}  // namespace

Connections::Connections(Driver& driver, Links& links, peer::Peers& peers, Identity own,
                         std::uint32_t processes)
    : driver_(driver), links_(links), peers_(peers), own_(own), processes_(processes) {}

Result<Address> Connections::listen(const Address& address) {
  auto service = peers_.serve(kService, [weak = weak_from_this()](peer::Request request) {
    if (const auto self = weak.lock()) self->on_request(std::move(request));
  });
  if (!service) return std::unexpected(service.error());
  auto listener = peers_.listen(address, {.channel = peers_.options()});
  if (!listener) return std::unexpected(listener.error());
  service_ = std::move(*service);
  listener_.emplace(std::move(*listener));
  return listener_->address();
}

void Connections::set_addresses(std::vector<std::optional<Address>> addresses) {
  on_loop([addresses = std::move(addresses)](Connections& self) mutable {
    self.addresses_ = std::move(addresses);
    for (auto& [to, blob] : std::exchange(self.early_dials_, {})) self.begin(to, std::move(blob));
  });
}

void Connections::set_address(ProcessId process, const Address& address) {
  on_loop([process, address](Connections& self) {
    if (self.addresses_) (*self.addresses_)[static_cast<std::uint32_t>(process)] = address;
  });
}

// Runs `work` on the thread of the engine, unless this object was closed.
template <typename Work>
void Connections::on_engine(Work work) {
  driver_.post([self = shared_from_this(), work = std::move(work)]() mutable {
    if (!self->is_closed_) work(*self);
  });
}

template <typename Work>
void Connections::on_loop(Work work) {
  peers_.loop().post([weak = weak_from_this(), work = std::move(work)]() mutable {
    const auto self = weak.lock();
    if (self && !self->is_closed_) work(*self);
  });
}

template <typename Work>
void Connections::on_link(const Identity& with, Work work) {
  on_engine([with, work = std::move(work)](Connections& self) mutable {
    if (self.links_.incarnation(with.process) == with.incarnation) work(self);
  });
}

/// Returns null if there is no connection with this process, or if another one is in its place.
Connections::Entry* Connections::entry_of(const Identity& with) {
  const auto found = entries_.find(with.process);
  return found != entries_.end() && found->second.incarnation == with.incarnation ? &found->second : nullptr;
}

/// Returns the connection with this process. That with the process in whose place it is ends.
Connections::Entry& Connections::entry_for(const Identity& with) {
  Entry& entry = entries_[with.process];
  if (entry.incarnation != with.incarnation) entry = Entry{.incarnation = with.incarnation};
  return entry;
}

void Connections::dial(ProcessId to, Incarnation incarnation, fabric::ConnectionBlob blob) {
  on_loop([to = Identity{to, incarnation}, blob = std::move(blob)](Connections& self) mutable {
    self.begin(to, std::move(blob));
  });
}

void Connections::begin(const Identity& to, fabric::ConnectionBlob blob) {
  if (!addresses_) {
    early_dials_.push_back({to, std::move(blob)});
    return;
  }
  const auto index = static_cast<std::uint32_t>(to.process);
  const auto address = index < addresses_->size() ? (*addresses_)[index] : std::nullopt;
  if (!address) return give_up(to, {Errc::peer_failed, "that process has never joined, or is dead"});
  Entry& entry = entry_for(to);
  entry.dialing = peers_.open(
      host_string(*address), address->port, kPatience, kService, {greeting(own_), std::move(blob)},
      [weak = weak_from_this(), to](Result<control::Channel> channel, peer::Offer theirs) {
        if (const auto self = weak.lock()) self->on_answer(to, std::move(channel), std::move(theirs));
      });
}

void Connections::on_answer(const Identity& to, Result<control::Channel> channel, peer::Offer theirs) {
  // The other process's own dial is used instead of this one, and must come.
  if (!channel && channel.error().code == Errc::already_exists) return await_ready(to);
  if (!channel) return give_up(to, channel.error());
  const auto answering = read_greeting(theirs.greeting, processes_);
  if (!answering || answering->process != to.process || answering->incarnation != to.incarnation)
    return give_up(to, {Errc::protocol_error, "another process has answered"});
  start(to, std::move(*channel));
  on_link(to, [to, blob = std::move(theirs.blob)](Connections& self) {
    auto connected = self.links_.connect(to.process, blob);
    if (connected) self.links_.open(to.process);
    self.on_loop([to, connected = std::move(connected)](Connections& own) {
      if (!connected) return own.give_up(to, connected.error());
      Entry* const entry = own.entry_of(to);
      if (entry == nullptr || !entry->channel) return;
      if (auto said = entry->channel->send({std::byte{1}}); !said) own.give_up(to, said.error());
    });
  });
}

void Connections::on_request(peer::Request request) {
  if (is_closed_) return request.refuse({Errc::cancelled, "the process is ending"});
  const auto from = read_greeting(request.offer().greeting, processes_);
  if (!from) return request.refuse(from.error());
  if (from->process == own_.process)
    return request.refuse({Errc::protocol_error, "a process that greets itself"});
  auto blob = std::move(request.offer().blob);
  const std::uint64_t number = ++last_request_;
  requests_.emplace(number, std::move(request));
  on_engine([from = *from, number, blob = std::move(blob)](Connections& self) {
    // A dead process may have dialed before its death.
    auto ours = self.links_.incarnation(from.process) == from.incarnation
                    ? self.links_.accept(from.process, blob)
                    : fail(Errc::cancelled, "another process is in the place of that one");
    self.on_loop([from, number, ours = std::move(ours)](Connections& own) mutable {
      auto asked = own.requests_.extract(number);
      own.answer(from, asked.mapped(), std::move(ours));
    });
  });
}

void Connections::answer(const Identity& from, peer::Request& request, Result<fabric::ConnectionBlob> blob) {
  if (!blob) {
    request.refuse(blob.error());
    if (blob.error().code != Errc::already_exists) give_up(from, blob.error());
    return;
  }
  auto channel = request.accept({greeting(own_), std::move(*blob)});
  if (!channel) return give_up(from, channel.error());
  entry_for(from);
  await_ready(from);
  start(from, std::move(*channel));
}

/// Gives up a link that is not open in time.
void Connections::await_ready(const Identity& with) {
  Entry* const entry = entry_of(with);
  if (entry == nullptr) return;
  entry->patience = peers_.loop().after(kPatience, [weak = weak_from_this(), with] {
    const auto self = weak.lock();
    if (!self) return;
    self->on_link(with, [with](Connections& own) {
      own.links_.give_up(with.process, {Errc::timed_out, "the other process does not get ready"});
    });
  });
}

void Connections::start(const Identity& with, control::Channel channel) {
  Entry* const entry = entry_of(with);
  if (entry == nullptr) return;
  entry->channel.emplace(std::move(channel));
  entry->channel->start(
      [weak = weak_from_this(), with](const peer::Bytes&) {
        if (const auto self = weak.lock()) self->set_ready(with);
      },
      [weak = weak_from_this(), with](const Error&) {
        if (const auto self = weak.lock())
          self->on_link(with, [with](Connections& own) { own.links_.leave(with.process); });
      });
}

void Connections::set_ready(const Identity& with) {
  if (Entry* const entry = entry_of(with)) entry->patience = {};
  on_link(with, [with](Connections& self) { self.links_.open(with.process); });
}

void Connections::give_up(const Identity& with, const Error& cause) {
  if (entry_of(with) != nullptr) entries_.erase(with.process);
  on_link(with, [with, cause](Connections& self) { self.links_.fail(with.process, cause); });
}

void Connections::close() {
  is_closed_ = true;
  service_ = {};
  listener_.reset();
  peers_.loop().call([this] {
    entries_.clear();
    requests_.clear();
  });
}

}  // namespace rdmc::replica
