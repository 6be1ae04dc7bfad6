#include "controlplane/connect/channel.hpp"

#include "controlplane/connect/loop_core.hpp"

namespace rdmc::control {

Channel::Channel(std::shared_ptr<ChannelEnd> end) : end_(std::move(end)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    abandon();
    end_ = std::move(other.end_);
  }
  return *this;
}

Channel::~Channel() {
  abandon();
}

void Channel::abandon() {
  if (!end_) return;
  const auto end = std::move(end_);
  const auto core = end->core();
  core->run_and_wait([&] { end->abandon(); });
}

void Channel::start(MessageHandler on_message, ClosedHandler on_closed) {
  end_->start(std::move(on_message), std::move(on_closed));
}

Result<void> Channel::send(std::vector<std::byte> message) {
  return end_->send(std::move(message));
}
void Channel::on_drained(DrainedHandler handler) {
  end_->on_drained(std::move(handler));
}
void Channel::close() {
  end_->close();
}
std::size_t Channel::queued_bytes() const {
  return end_->queued_bytes();
}
const Address& Channel::peer() const {
  return end_->peer();
}
Address Channel::local() const {
  return end_->local();
}

std::optional<Duration> Channel::round_trip() const {
  return end_->round_trip();
}

std::optional<std::array<std::byte, 16>> Channel::binding() const {
  return end_->binding();
}

}  // namespace rdmc::control
