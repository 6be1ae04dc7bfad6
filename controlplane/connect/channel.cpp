#include "controlplane/connect/channel.hpp"

#include <cassert>

#include "controlplane/connect/connection.hpp"

namespace rdmc::control {

Channel::Channel(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    abandon();
    connection_ = std::move(other.connection_);
  }
  return *this;
}

Channel::~Channel() {
  abandon();
}

void Channel::abandon() {
  if (!connection_) return;
  const auto connection = std::move(connection_);
  const auto core = connection->core();
  core->run_and_wait([&] { connection->abandon(); });
}

void Channel::start(MessageHandler on_message, ClosedHandler on_closed) {
  connection_->start(std::move(on_message), std::move(on_closed));
}

Result<void> Channel::send(std::vector<std::byte> message) {
  return connection_->send(std::move(message));
}
void Channel::on_drained(DrainedHandler handler) {
  connection_->on_drained(std::move(handler));
}
void Channel::close() {
  connection_->close();
}
std::size_t Channel::queued_bytes() const {
  return connection_->queued_bytes();
}
const Address& Channel::peer() const {
  return connection_->peer();
}
Address Channel::local() const {
  return connection_->local();
}

}  // namespace rdmc::control
