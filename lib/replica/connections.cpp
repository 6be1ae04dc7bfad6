#include "lib/replica/connections.hpp"

#include <string>
#include <utility>

#include "dataplane/base/bytes.hpp"

namespace rdmc::replica {
namespace {

constexpr const char* kService = "rank program";
/// It increases when the greeting or the records change.
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kGreetingBytes = 8;

peer::Bytes greeting(ProcessId own) {
  peer::Bytes bytes(kGreetingBytes);
  store_be(bytes.data(), kVersion);
  store_be(bytes.data() + 4, static_cast<std::uint32_t>(own));
  return bytes;
}

Result<ProcessId> read_greeting(const peer::Bytes& bytes, std::uint32_t processes) {
  if (bytes.size() < 4) return fail(Errc::protocol_error, "a greeting that is cut off");
  if (load_be<std::uint32_t>(bytes.data()) != kVersion)
    return fail(Errc::version_mismatch, "the other process has another version of the rank library");
  if (bytes.size() != kGreetingBytes) return fail(Errc::protocol_error, "a greeting of a wrong length");
  const auto process = load_be<std::uint32_t>(bytes.data() + 4);
  if (process >= processes) return fail(Errc::protocol_error, "a process that the run does not have");
  return ProcessId{process};
}

}  // namespace

Connections::Connections(Driver& driver, Links& links, peer::Peers& peers, ProcessId own,
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

void Connections::dial(ProcessId to, fabric::ConnectionBlob blob) {
  on_loop([to, blob = std::move(blob)](Connections& self) mutable { self.begin(to, std::move(blob)); });
}

void Connections::begin(ProcessId to, fabric::ConnectionBlob blob) {
  if (!addresses_) {
    early_dials_.emplace(to, std::move(blob));
    return;
  }
  const auto index = static_cast<std::uint32_t>(to);
  const auto address = index < addresses_->size() ? (*addresses_)[index] : std::nullopt;
  if (!address) return give_up(to, {Errc::peer_failed, "that process has never joined, or is dead"});
  Entry& entry = entries_[to];
  entry.dialing = peers_.open(
      host_string(*address), address->port, kPatience, kService, {greeting(own_), std::move(blob)},
      [weak = weak_from_this(), to](Result<control::Channel> channel, peer::Offer theirs) {
        if (const auto self = weak.lock()) self->on_answer(to, std::move(channel), std::move(theirs));
      });
}

void Connections::on_answer(ProcessId to, Result<control::Channel> channel, peer::Offer theirs) {
  // The other process's own dial is used instead of this one, and must come.
  if (!channel && channel.error().code == Errc::already_exists) return await_ready(to);
  if (!channel) return give_up(to, channel.error());
  if (const auto process = read_greeting(theirs.greeting, processes_); !process || *process != to)
    return give_up(to, {Errc::protocol_error, "another process has answered"});
  start(to, std::move(*channel));
  on_engine([to, blob = std::move(theirs.blob)](Connections& self) {
    auto connected = self.links_.connect(to, blob);
    if (connected) self.links_.open(to);
    self.on_loop([to, connected = std::move(connected)](Connections& own) {
      if (!connected) return own.give_up(to, connected.error());
      const auto found = own.entries_.find(to);
      if (found == own.entries_.end() || !found->second.channel) return;
      if (auto said = found->second.channel->send({std::byte{1}}); !said) own.give_up(to, said.error());
    });
  });
}

void Connections::on_request(peer::Request request) {
  if (is_closed_) return request.refuse({Errc::cancelled, "the process is ending"});
  const auto from = read_greeting(request.offer().greeting, processes_);
  if (!from) return request.refuse(from.error());
  if (*from == own_) return request.refuse({Errc::protocol_error, "a process that greets itself"});
  auto blob = std::move(request.offer().blob);
  const std::uint64_t number = ++last_request_;
  requests_.emplace(number, std::move(request));
  on_engine([from = *from, number, blob = std::move(blob)](Connections& self) {
    self.on_loop([from, number, ours = self.links_.accept(from, blob)](Connections& own) mutable {
      auto asked = own.requests_.extract(number);
      own.answer(from, asked.mapped(), std::move(ours));
    });
  });
}

void Connections::answer(ProcessId from, peer::Request& request, Result<fabric::ConnectionBlob> blob) {
  if (!blob) {
    request.refuse(blob.error());
    if (blob.error().code != Errc::already_exists) give_up(from, blob.error());
    return;
  }
  auto channel = request.accept({greeting(own_), std::move(*blob)});
  if (!channel) return give_up(from, channel.error());
  await_ready(from);
  start(from, std::move(*channel));
}

/// Gives up a link that is not open in time.
void Connections::await_ready(ProcessId process) {
  entries_[process].patience = peers_.loop().after(kPatience, [weak = weak_from_this(), process] {
    const auto self = weak.lock();
    if (!self) return;
    self->on_engine([process](Connections& own) {
      own.links_.give_up(process, {Errc::timed_out, "the other process does not get ready"});
    });
  });
}

void Connections::start(ProcessId process, control::Channel channel) {
  Entry& entry = entries_[process];
  entry.channel.emplace(std::move(channel));
  entry.channel->start(
      [weak = weak_from_this(), process](const peer::Bytes&) {
        if (const auto self = weak.lock()) self->set_ready(process);
      },
      [weak = weak_from_this(), process](const Error&) {
        if (const auto self = weak.lock())
          self->on_engine([process](Connections& own) { own.links_.leave(process); });
      });
}

void Connections::set_ready(ProcessId process) {
  entries_[process].patience = {};
  on_engine([process](Connections& self) { self.links_.open(process); });
}

void Connections::give_up(ProcessId process, const Error& cause) {
  entries_.erase(process);
  on_engine([process, cause](Connections& self) { self.links_.fail(process, cause); });
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
