#include "controlplane/peer/sub_channel.hpp"

#include <utility>

namespace rdmc::peer {
namespace {

/// The time limit for the other side to answer a Close.
constexpr Duration kCloseDeadline = seconds(5);

}  // namespace

SubChannel::SubChannel(std::shared_ptr<Connection> connection, ChannelId id)
    : connection_(std::move(connection)),
      id_(id),
      peer_(connection_->peer()),
      local_(connection_->local()),
      core_(connection_->loop().core()) {}

void SubChannel::start(control::Channel::MessageHandler on_message,
                       control::Channel::ClosedHandler on_closed) {
  started_ = true;
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  if (waiting_.empty() && !end_) return;
  connection_->loop().post([self = shared_from_this()] { self->deliver(); });
}

Result<void> SubChannel::send(std::vector<std::byte> message) {
  if (state_ != State::open) return fail(Errc::cancelled, to_string(peer_) + ": the channel is closed");
  auto sent = connection_->send(id_, std::move(message));
  if (!sent && sent.error().code == Errc::would_block) would_block_told_ = true;
  return sent;
}

void SubChannel::close() {
  if (state_ != State::open) return;
  state_ = State::closing;
  waiting_.clear();
  connection_->close(id_);
  close_due_ = connection_->loop().after(kCloseDeadline, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->state_ != State::closing) return;
    self->connection_->drop(self->id_);
    self->end({Errc::timed_out, to_string(self->peer_) + ": did not close a channel in time"});
  });
}

void SubChannel::abandon() {
  abandoned_ = true;
  on_closed_ = nullptr;
  on_drained_ = nullptr;
  // The handler is not released while it runs, because it may own the object in which the handler is running.
  if (!delivering_) on_message_ = nullptr;
  waiting_.clear();
  if (state_ != State::open) return;
  state_ = State::over;
  connection_->drop(id_);
}

void SubChannel::receive(Bytes body) {
  if (state_ != State::open) return;
  if (!started_ && waiting_bytes_ + body.size() > kMostWaitingBytes) {
    connection_->drop_flooded(id_);
    return end({Errc::resource_limit, to_string(peer_) + ": too much came on a channel that is not used"});
  }
  waiting_bytes_ += body.size();
  waiting_.push_back(std::move(body));
  deliver();
}

void SubChannel::end(const Error& cause) {
  if (state_ == State::over) return;
  state_ = State::over;
  close_due_ = {};
  end_ = cause;
  deliver();
}

/// Delivers the waiting messages, and then the end of the channel. A handler may destroy the channel.
void SubChannel::deliver() {
  if (!started_ || delivering_) return;
  const auto self = shared_from_this();
  delivering_ = true;
  while (!waiting_.empty() && !abandoned_ && state_ != State::closing) {
    Bytes body = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= body.size();
    on_message_(std::move(body));
  }
  delivering_ = false;
  if (abandoned_ || end_) on_message_ = nullptr;
  if (abandoned_ || !end_) return;
  on_drained_ = nullptr;
  const Error cause = *std::exchange(end_, std::nullopt);
  if (auto closed = std::exchange(on_closed_, nullptr)) closed(cause);
}

void SubChannel::drained() {
  if (!std::exchange(would_block_told_, false) || abandoned_ || state_ != State::open || !on_drained_) return;
  auto handler = std::exchange(on_drained_, nullptr);
  handler();  // The handler may destroy the channel or set another handler.
  if (!abandoned_ && !on_drained_) on_drained_ = std::move(handler);
}

}  // namespace rdmc::peer
