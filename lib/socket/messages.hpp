// SOCK_SEQPACKET: messages, kept apart, over a connection's bytes: each is its length (4 bytes, big endian)
// and as much. It answers like Linux's AF_UNIX (net/unix/af_unix.c), the one SEQPACKET that everybody has: an
// error first, then whole messages, then the end; a shutdown or close at one end is seen at the other at
// once. A message may be longer than a connection's window: what has come of the oldest one is then kept
// here. Pure; under the sockets' lock.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/socket/endpoint.hpp"

namespace rdmc::sockets {

class Messages final : public Endpoint, private Watcher {
 public:
  /// The longest message, and what a peer can make us keep for a connection beyond its window; of all its
  /// connections at once Mux::kMostOfMessages, then those that bring more end with ENOBUFS.
  static constexpr std::size_t kMostBytes = 16 << 20;

  explicit Messages(std::shared_ptr<Stream> stream) { follow(std::move(stream)); }
  ~Messages() override { stream_->watch(nullptr); }

  /// From now on over another stream, on which nothing has come.
  void follow(std::shared_ptr<Stream> stream);
  void watch(Watcher* watcher) override { watcher_ = watcher; }

  /// Errors of these: EMSGSIZE, EAGAIN, ENOTCONN, EPIPE, or what ended the connection.
  Answer send(std::span<const std::byte> bytes) override;
  std::expected<Draft, int> begin_send(std::size_t bytes) override;
  Answer end_send(Draft draft) override;
  /// Errors of both: EAGAIN, ENOTCONN, or what ended the connection.
  Answer receive(std::span<std::byte> out, bool peek) override;
  std::expected<Message, int> take(bool peek) override;
  std::size_t unread() const override { return has_message() ? *length_ : 0; }
  bool has_message() const override { return length_ && kept() + stream_->available() >= *length_; }
  int take_error() override { return stream_->take_error(); }
  void close(bool abort) override;
  short events() const override;

 private:
  void on_change(bool data) override;
  void look();
  std::size_t kept() const { return begun_ != nullptr ? begun_->size() : 0; }
  Answer check_send(std::size_t bytes);
  std::optional<Answer> why_no_message();
  bool keep(std::size_t more);
  void gather(std::size_t length);
  void end_message();
  void forget();
  bool has_ended() const {
    return stream_->state() == Stream::State::closed || (stream_->shut() & Stream::kShutRead) != 0;
  }

  std::shared_ptr<Stream> stream_;
  Watcher* watcher_ = nullptr;
  std::optional<std::size_t> length_;              // of the oldest message, once its head has come
  std::shared_ptr<std::vector<std::byte>> begun_;  // what was taken of it out of the stream
  Share share_;                                    // of what all the peer's may have begun
};

}  // namespace rdmc::sockets
