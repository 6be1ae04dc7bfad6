#include "controlplane/connect/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <new>

namespace rdmc::control {
namespace {

using boost::system::error_code;

/// The number of plaintext bytes in a full TLS record.
constexpr std::size_t kRecordBytes = 16 * 1024;
/// While at least this number of output bytes waits for the socket, no further records are made.
constexpr std::size_t kOutputAhead = 64 * 1024;
/// The number of messages from one peer that are handled before the loop runs its other operations. One read
/// can bring up to 64 KB of messages.
constexpr std::size_t kMessagesPerTurn = 64;
/// The time limit for sending the last bytes to a peer whose connection has ended.
constexpr Duration kDrainTime = seconds(1);

std::string seconds_text(Duration duration) {
  std::string text = std::to_string(duration.ns / 1'000'000);
  if (text.size() > 3 && text.ends_with("000")) return text.substr(0, text.size() - 3) + " s";
  return text + " ms";
}

}  // namespace

Connection::Connection(std::shared_ptr<LoopCore> core, Descriptor socket, const Address& peer, Role role,
                       const ChannelOptions& options)
    : core_(std::move(core)),
      options_(options),
      peer_(peer),
      local_(local_address(socket.get())),
      socket_(*core_),
      timer_(core_->context()),
      protocol_(role, options) {
  set_channel_options(socket.get(), options.silence_limit);
  (void)socket_.take(socket);  // If take() fails, the socket is closed here, and handshake() fails.
}

// ---- Waiting

void Connection::arm_read() {
  if (read_armed_ || !socket_.is_open()) return;
  read_armed_ = true;
  socket_.async_wait(LoopSocket::Wait::wait_read, [self = shared_from_this()](error_code error) {
    self->read_armed_ = false;
    if (!error) self->with_memory([&] { self->on_readable(); });
  });
}

void Connection::arm_write() {
  if (write_armed_ || !socket_.is_open()) return;
  write_armed_ = true;
  socket_.async_wait(LoopSocket::Wait::wait_write, [self = shared_from_this()](error_code error) {
    self->write_armed_ = false;
    if (!error) self->with_memory([&] { self->flush(); });
  });
}

void Connection::arm_timer(Duration delay) {
  timer_.expires_after(std::chrono::nanoseconds(delay.ns));
  timer_.async_wait([self = shared_from_this(), state = state_](error_code error) {
    if (!error && self->state_ == state) self->with_memory([&] { self->on_timer(); });
  });
}

void Connection::flush_soon() {
  // All messages that are sent in one turn of the loop are sent together, in full records. The delay also
  // ensures that send() never calls a handler.
  if (std::exchange(flush_posted_, true)) return;
  boost::asio::post(core_->context(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->with_memory([&] { self->flush(); });
  });
}

// ---- Handshake

void Connection::handshake(Duration deadline, HandshakeDone done) {
  handshake_done_ = std::move(done);
  deadline_text_ = seconds_text(deadline);
  core_->add(shared_from_this());
  if (!socket_.is_open()) {
    boost::asio::post(core_->context(), [self = shared_from_this()] {
      if (self->state_ == State::handshaking)
        self->end(self->about_peer(Errc::resource_limit, "the socket cannot be watched"), false);
    });
    return;
  }
  arm_timer(deadline);
  protocol_.start();
  flush_soon();
  arm_read();
}

void Connection::refuse(Error error) {
  if (state_ == State::handshaking) end(about_peer(error.code, error.what), false);
}

// ---- Receiving

void Connection::on_readable() {
  const auto buffer = core_->scratch();
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return arm_read();
  if (state_ == State::closing || state_ == State::draining) {
    if (got > 0) return arm_read();  // The received bytes are discarded. Only the end of the stream matters.
    return end_of_stream(got < 0 ? errno : 0);
  }
  if (got <= 0) return end_of_stream(got < 0 ? errno : 0);
  protocol_.receive(buffer.first(static_cast<std::size_t>(got)));
  advance();
}

/// Reacts to the new state of the protocol.
void Connection::advance() {
  const auto self = shared_from_this();
  if (state_ == State::handshaking && protocol_.established()) {
    state_ = State::open;
    timer_.cancel();
    flush();
    if (auto done = std::exchange(handshake_done_, nullptr)) done({});
  }
  if (state_ == State::open && !started_) return;  // start() calls this function again.
  if (state_ == State::open && !deliver()) return;
  if (state_ != State::open && state_ != State::handshaking) return;
  if (protocol_.failure()) return end(about_peer(protocol_.failure()->code, protocol_.failure()->what), true);
  if (protocol_.ended())
    return end(about_peer(Errc::cancelled, "the other side closed the connection"), true);
  if (!protocol_.output().empty()) flush_soon();
  arm_read();
}

/// Delivers the messages that have arrived. Returns true if all of them were delivered. Returns false if a
/// handler has closed or destroyed the channel, or if the remaining messages wait for the loop's next turn.
bool Connection::deliver() {
  auto& messages = protocol_.messages();
  delivering_ = true;
  for (std::size_t left = kMessagesPerTurn; state_ == State::open && !abandoned_ && !messages.empty();
       --left) {
    if (left == 0) {
      delivering_ = false;
      boost::asio::post(core_->context(),
                        [self = shared_from_this()] { self->with_memory([&] { self->advance(); }); });
      return false;
    }
    Message message = std::move(messages.front());
    messages.pop_front();
    on_message_(std::move(message));
  }
  delivering_ = false;
  if (state_ == State::open && !abandoned_) return true;
  // The handler is released only here, because it may own the object in which the handler was running.
  on_message_ = nullptr;
  return false;
}

void Connection::end_of_stream(int read_error) {
  // The kernel reports the error of a socket only once, to the first call after the failure. If this call was
  // a write, the read sees a normal end of the stream. The error of the write is used then.
  const int error = read_error != 0 ? read_error : write_error_;
  switch (state_) {
    case State::draining: return shut();
    case State::closing:
      if (said_goodbye_ && error == 0 && queue_.empty() && protocol_.output().empty())
        return end(about_peer(Errc::cancelled, "closed by this side"), false);
      break;
    default: break;
  }
  if (error == ETIMEDOUT)
    return end(about_peer(Errc::timed_out, "silent for " + seconds_text(options_.silence_limit)), false);
  const std::string mid_message = protocol_.mid_message() ? " in the middle of a message" : "";
  if (error != 0) {
    auto lost = fail_socket(to_string(peer_), error).error();
    lost.what += mid_message;
    return end(std::move(lost), false);
  }
  if (state_ == State::handshaking)
    return end(about_peer(Errc::peer_failed, "the connection ended during the handshake"), false);
  if (state_ == State::closing)
    return end(about_peer(Errc::peer_failed, "the other side ended before it had read everything"), false);
  end(about_peer(Errc::peer_failed, "the connection ended without a goodbye" + mid_message), false);
}

void Connection::start(Channel::MessageHandler on_message, Channel::ClosedHandler on_closed) {
  assert(core_->on_loop_thread() && !started_);
  started_ = true;
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  boost::asio::post(core_->context(), [self = shared_from_this()] {
    if (self->early_end_) {
      const Error error = *std::exchange(self->early_end_, std::nullopt);
      return self->report(error);
    }
    // The bytes that arrived together with the preamble are already in the protocol. They may include the
    // peer's goodbye.
    if (self->state_ == State::open) self->with_memory([&] { self->advance(); });
  });
}

// ---- Sending

Result<void> Connection::send(Message message) {
  assert(core_->on_loop_thread());
  if (state_ != State::open) return fail(Errc::cancelled, to_string(peer_) + ": the channel is closed");
  if (write_error_ != 0) return fail_socket(to_string(peer_), write_error_);
  if (message.size() > options_.max_message_bytes)
    return fail(Errc::invalid_argument, to_string(peer_) + ": a message of " +
                                            std::to_string(message.size()) + " bytes; at most " +
                                            std::to_string(options_.max_message_bytes) + " are allowed");
  // An empty queue accepts any message. Otherwise a small limit would block a large message forever.
  if (queued_bytes_ != 0 && queued_bytes_ + kLengthBytes + message.size() > options_.max_queued_bytes) {
    would_block_told_ = true;
    return fail(Errc::would_block,
                to_string(peer_) + ": " + std::to_string(queued_bytes_) + " bytes are queued");
  }
  queued_bytes_ += kLengthBytes + message.size();
  const auto length = encode_length(static_cast<std::uint32_t>(message.size()));
  queue_.push_back({length, std::move(message)});
  flush_soon();
  return {};
}

/// Moves queued messages to the output, one full record at a time. Small messages share a record. Returns
/// false if there is nothing to send.
bool Connection::fill_output() {
  auto& output = protocol_.output();
  while (output.size() - output_sent_ < kOutputAhead && !queue_.empty()) {
    std::array<std::byte, kRecordBytes> record;
    std::size_t filled = 0;
    while (filled < record.size() && !queue_.empty()) {
      Outgoing& front = queue_.front();
      const auto rest = front.sent < kLengthBytes
                            ? std::span<const std::byte>(front.length).subspan(front.sent)
                            : std::span<const std::byte>(front.body).subspan(front.sent - kLengthBytes);
      const std::size_t take = std::min(rest.size(), record.size() - filled);
      std::copy_n(rest.begin(), take, record.begin() + static_cast<std::ptrdiff_t>(filled));
      filled += take;
      front.sent += take;
      if (front.sent == front.size()) queue_.pop_front();
    }
    queued_bytes_ -= filled;
    protocol_.write(std::span(record).first(filled));
  }
  if (output.size() == output_sent_ && state_ == State::closing && !said_goodbye_) {
    said_goodbye_ = true;
    protocol_.goodbye();
  }
  return output.size() > output_sent_;
}

void Connection::flush() {
  if (state_ == State::closed || write_error_ != 0) return;
  auto& output = protocol_.output();
  while (fill_output()) {
    const auto rest = std::span<const std::byte>(output).subspan(output_sent_);
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        tell_drained();
        return arm_write();
      }
      // The last bytes from the peer may still be in the receive queue. The next read finds these bytes, or
      // it reports this error.
      write_error_ = errno;
      if (state_ != State::open || started_) arm_read();
      return;
    }
    output_sent_ += static_cast<std::size_t>(sent);
    if (output_sent_ == output.size()) {
      output_sent_ = 0;
      output.clear();
      if (queue_.empty()) output.shrink_to_fit();  // An idle channel keeps no buffer.
    }
  }
  if ((state_ == State::closing || state_ == State::draining) && !shut_) {
    shut_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  tell_drained();
}

void Connection::tell_drained() {
  if (!would_block_told_ || queued_bytes_ > options_.max_queued_bytes / 2) return;
  would_block_told_ = false;
  if (!on_drained_ || abandoned_ || state_ != State::open) return;
  auto handler = std::exchange(on_drained_, nullptr);
  handler();  // The handler may destroy the channel or set another handler.
  if (!abandoned_ && !on_drained_ && state_ == State::open) on_drained_ = std::move(handler);
}

// ---- Ending

void Connection::close() {
  assert(core_->on_loop_thread());
  if (state_ != State::open) return;
  state_ = State::closing;
  arm_timer(options_.close_deadline);
  flush_soon();
  arm_read();
}

/// Ends the connection after std::bad_alloc. A handler may have thrown it in the middle of a message. If
/// there is enough memory, the user gets the error. The connection is closed in any case.
void Connection::end_without_memory() noexcept {
  delivering_ = false;
  if (abandoned_) on_message_ = nullptr;
  if (state_ == State::closed) return;
  try {
    end({Errc::resource_limit, "no memory"}, false);
  } catch (const std::bad_alloc&) {
    shut();
  }
}

void Connection::on_timer() {
  switch (state_) {
    case State::handshaking:
      return end(about_peer(Errc::timed_out, "no handshake within " + deadline_text_), false);
    case State::closing:
      return end(about_peer(Errc::timed_out, "did not read what was sent within " +
                                                 seconds_text(options_.close_deadline) + " of closing"),
                 false);
    default: return shut();
  }
}

void Connection::end(Error error, bool drain) {
  const auto self = shared_from_this();
  queue_.clear();
  queued_bytes_ = 0;
  if (drain && write_error_ == 0 && socket_.is_open()) {
    state_ = State::draining;
    arm_timer(kDrainTime);
    flush();
    arm_read();
  } else {
    shut();
  }
  report(std::move(error));
}

void Connection::report(Error error) {
  if (auto done = std::exchange(handshake_done_, nullptr)) return done(std::unexpected(std::move(error)));
  if (abandoned_) return;
  if (!started_) {
    early_end_ = std::move(error);
    return;
  }
  auto on_closed = std::exchange(on_closed_, nullptr);
  if (!delivering_) on_message_ = nullptr;
  on_drained_ = nullptr;
  if (on_closed) on_closed(error);
}

void Connection::abandon() {
  abandoned_ = true;
  handshake_done_ = nullptr;
  on_closed_ = nullptr;
  on_drained_ = nullptr;
  if (!delivering_) on_message_ = nullptr;
  if (state_ == State::handshaking || state_ == State::open) shut();
}

void Connection::shut() {
  state_ = State::closed;
  core_->remove(this);
  timer_.cancel();
  socket_.close();
}

void Connection::on_loop_stop() {
  const bool told = state_ == State::draining || state_ == State::closed;
  if (told) return shut();
  end(about_peer(Errc::cancelled, "the control loop stopped"), false);
}

}  // namespace rdmc::control
