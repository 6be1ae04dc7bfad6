// SOCK_SEQPACKET: whole messages over the bytes of a connection. Each message is its length (4 bytes, big
// endian), followed by this number of bytes. The class answers like the SOCK_SEQPACKET that every Linux has,
// AF_UNIX (net/unix/af_unix.c): first an error is reported, then whole messages, then the end. A shutdown or
// close at one end has its effect at the other end at once. A message may be longer than the window of a
// connection. Then this class keeps the arrived part of the oldest message. A core without I/O. The caller
// must hold the sockets' lock.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/socket/endpoint.hpp"

namespace rdmc::sockets {

class Messages final : public Endpoint, private Watcher {
 public:
  /// The length of the longest message. It is also the most that a peer can make this process keep for one
  /// connection in addition to the window. All connections of a peer together have the limit
  /// Mux::kMostOfMessages. A connection that exceeds this limit ends with ENOBUFS.
  static constexpr std::size_t kMostBytes = 16 << 20;

  explicit Messages(std::shared_ptr<Stream> stream) { follow(std::move(stream)); }
  ~Messages() override { stream_->watch(nullptr); }

  /// Replaces the stream by `stream`. Precondition: nothing has arrived on `stream`.
  void follow(std::shared_ptr<Stream> stream);
  void watch(Watcher* watcher) override { watcher_ = watcher; }

  /// Errors of send(), begin_send() and end_send(): EMSGSIZE, EAGAIN, ENOTCONN, EPIPE, or the error that
  /// ended the connection.
  Answer send(std::span<const std::byte> bytes) override;
  std::expected<Draft, int> begin_send(std::size_t bytes) override;
  Answer end_send(Draft draft) override;
  /// Errors of receive() and take(): EAGAIN, ENOTCONN, or the error that ended the connection.
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
  std::optional<std::size_t> length_;  // the length of the oldest message, if its length field has arrived
  std::shared_ptr<std::vector<std::byte>> begun_;  // the bytes of the oldest message that were taken out of
                                                   // the stream
  Share share_;                                    // this connection's share of the peer's memory quota
};

}  // namespace rdmc::sockets
