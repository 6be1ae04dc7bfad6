// Peer and Request, which are the handles of a connection for the owners of services.
#include <new>
#include <utility>

#include "controlplane/peer/connection.hpp"
#include "controlplane/peer/peers.hpp"

namespace rdmc::peer {

const Identity& Peer::identity() const {
  return *connection_->identity;
}
Address Peer::address() const {
  return connection_->peer();
}
Address Peer::local() const {
  return connection_->local();
}
std::uint64_t Peer::number() const {
  return connection_->number;
}
bool Peer::was_dialed_by_us() const {
  return connection_->dials();
}
bool Peer::is_connected() const {
  return connection_->is_open();
}
void Peer::open(std::string service, Offer offer, OpenDone done) {
  connection_->open(std::move(service), std::move(offer), std::move(done));
}

Request::Request(std::shared_ptr<Connection> connection, ChannelId channel, Offer offer)
    : connection_(std::move(connection)), channel_(channel), offer_(std::move(offer)) {}

Request::~Request() {
  if (!connection_) return;
  try {
    refuse({Errc::cancelled, "nobody has answered"});
  } catch (const std::bad_alloc&) {
    // There is no memory for the refusal, so the dialer gets no answer. Its wait ends by its own time limit.
  }
}
const Identity& Request::identity() const {
  return *connection_->identity;
}
Address Request::address() const {
  return connection_->peer();
}
Address Request::local() const {
  return connection_->local();
}
Result<control::Channel> Request::accept(Offer answer) {
  const auto connection = std::exchange(connection_, nullptr);
  auto channel = connection->accept(channel_, std::move(answer));
  if (!channel) return fail(Errc::cancelled, to_string(connection->peer()) + ": wants the channel no longer");
  return std::move(*channel);
}
void Request::refuse(const Error& cause) {
  std::exchange(connection_, nullptr)->refuse(channel_, cause);
}

}  // namespace rdmc::peer
