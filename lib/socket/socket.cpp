#include "lib/socket/socket.hpp"

#include <cerrno>
#include <utility>

namespace rdmc::sockets {

Backlog::~Backlog() {
  for (auto* queue : {&ready_, &waiting_})
    for (auto& connection : *queue) connection.stream->close(true);
}

bool Backlog::add(Connection connection) {
  if (waiting_.size() >= kMostWaiting) return false;
  waiting_.push_back(std::move(connection));
  promote();
  return true;
}

void Backlog::promote() {
  while (!waiting_.empty() && ready_.size() <= most_) {
    Connection next = std::move(waiting_.front());
    waiting_.pop_front();
    // The peer has gone meanwhile. So nothing is sent to it, and the application does not get this
    // connection.
    if (next.stream->is_over()) continue;
    if (const auto mux = next.asked.mux.lock()) mux->accept(next.asked.id);
    if (shut_ != 0 && next.asked.kind == ConnectionKind::bytes) (void)next.stream->shutdown(shut_);
    ready_.push_back(std::move(next));
  }
}

std::optional<Backlog::Connection> Backlog::take() {
  if (ready_.empty()) return std::nullopt;
  Connection first = std::move(ready_.front());
  ready_.pop_front();
  promote();
  return first;
}

Socket::Socket(std::shared_ptr<Stream> stream) : stream_(std::move(stream)), phase_(Phase::connected) {
  if (kind() == ConnectionKind::messages) endpoint_ = messages_ = std::make_shared<Messages>(stream_);
}

void Socket::watch(Watcher* watcher) {
  if (endpoint_)
    endpoint_->watch(watcher);
  else
    stream_->watch(watcher);
}

Answer Socket::check_listen() const {
  if (phase_ != Phase::unconnected || stream_->state() != Stream::State::closed)
    return std::unexpected(EINVAL);
  return 0;
}

void Socket::listen(std::size_t backlog) {
  if (backlog_)
    backlog_->set_most(backlog);
  else
    backlog_ = std::make_unique<Backlog>(backlog, stream_->shut());
}

std::expected<Backlog::Connection, int> Socket::accept() {
  if (!backlog_) return std::unexpected(EINVAL);
  auto connection = backlog_->take();
  if (!connection) return std::unexpected(EAGAIN);
  connection->stream->let_go_on();
  return std::move(*connection);
}

std::expected<Socket::Connecting, int> Socket::connect() {
  if (phase_ == Phase::connected || backlog_) return std::unexpected(EISCONN);
  if (phase_ == Phase::disconnecting) return std::unexpected(EINVAL);
  if (phase_ == Phase::unconnected) {
    phase_ = Phase::connecting;
    const auto last = std::exchange(stream_, std::make_shared<Stream>(kind()));
    stream_->take_the_place_of(*last);
    if (messages_) messages_->follow(stream_);
    stream_->connect();
    return Connecting::begins;
  }
  if (stream_->state() == Stream::State::connecting) return Connecting::goes_on;
  const int error = stream_->take_error();
  if (stream_->state() == Stream::State::open && error == 0) {
    phase_ = Phase::connected;
    return Connecting::succeeded;
  }
  phase_ = Phase::unconnected;
  stream_->disconnect();
  return std::unexpected(error != 0 ? error : ECONNABORTED);
}

Answer Socket::send(std::span<const std::byte> bytes, const void* caller) {
  return endpoint_ ? endpoint_->send(bytes) : stream_->send(bytes, caller);
}

Answer Socket::receive(std::span<std::byte> out, bool peek) {
  if (backlog_) return std::unexpected(ENOTCONN);
  if (endpoint_) return endpoint_->receive(out, peek);
  return stream_->receive(out, peek);
}

std::expected<Endpoint::Message, int> Socket::take_message(bool peek) {
  if (backlog_) return std::unexpected(ENOTCONN);
  return endpoint_->take(peek);
}

Answer Socket::shutdown(unsigned how) {
  if (backlog_) {
    if ((how & Stream::kShutRead) != 0) {  // the socket stops listening
      backlog_.reset();
      stream_->disconnect();
    }
    return 0;
  }
  if (phase_ == Phase::connecting) {
    if (stream_->state() == Stream::State::connecting) {
      phase_ = Phase::unconnected;
      stream_->disconnect();
      return 0;
    }
    phase_ = stream_->state() == Stream::State::open ? Phase::connected : Phase::disconnecting;
  }
  return stream_->shutdown(how);
}

void Socket::close(bool abort) {
  backlog_.reset();
  if (endpoint_)
    endpoint_->close(abort);
  else
    stream_->close(abort);
}

short Socket::events() const {
  if (backlog_) return backlog_->empty() ? 0 : kReadable;
  return endpoint_ ? endpoint_->events() : stream_->events();
}

}  // namespace rdmc::sockets
