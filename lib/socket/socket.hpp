// What a socket is beyond its stream: whether it listens, whom it has been asked for, how far connect() has
// come. Like Stream it answers as Linux does (net/ipv4/af_inet.c), never blocks, and is pure; addresses and
// ports are for whoever owns it to know. Under the sockets' lock.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "lib/socket/messages.hpp"
#include "lib/socket/mux.hpp"
#include "lib/socket/stream.hpp"

namespace rdmc::sockets {

/// Connections that have been asked for and not been accepted. As many as the backlog says and one are there
/// for their peers already; the others' peers wait.
class Backlog {
 public:
  /// Peers that wait because the backlog is full; others are refused.
  static constexpr std::size_t kMostWaiting = 4096;

  /// `shut`: what every connection has shut down from its beginning, as the listening socket had.
  Backlog(std::size_t most, unsigned shut) : most_(most), shut_(shut) {}
  ~Backlog();
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  struct Connection {
    Asked asked;
    std::shared_ptr<Stream> stream;
  };
  void set_most(std::size_t most) { most_ = most; }
  /// False: too many wait.
  bool add(Connection connection);
  std::optional<Connection> take();
  bool empty() const { return ready_.empty(); }

 private:
  void promote();

  std::size_t most_;
  unsigned shut_;
  std::deque<Connection> ready_, waiting_;
};

class Socket {
 public:
  /// A new one, or the end of a connection that was accepted.
  explicit Socket(ConnectionKind kind = ConnectionKind::bytes) : Socket(std::make_shared<Stream>(kind)) {
    phase_ = Phase::unconnected;
  }
  explicit Socket(std::shared_ptr<Stream> stream);
  /// A member of a group, which needs no stream.
  explicit Socket(std::shared_ptr<Endpoint> member) : Socket() { endpoint_ = std::move(member); }

  ConnectionKind kind() const { return stream_->kind(); }
  bool keeps_messages() const { return endpoint_ != nullptr; }
  /// Null: nobody.
  void watch(Watcher* watcher);
  const std::shared_ptr<Stream>& stream() const { return stream_; }
  Backlog* backlog() const { return backlog_.get(); }

  /// Whether listen() would do. Errors: EINVAL.
  Answer check_listen() const;
  void listen(std::size_t backlog);
  /// Errors: EINVAL (it does not listen), EAGAIN.
  std::expected<Backlog::Connection, int> accept();

  enum class Connecting {
    begins,   ///< it was not connecting: dial, then ask
    goes_on,  ///< nothing has been decided
    succeeded,
  };
  /// connect() was called, or has waited. Errors: EISCONN, EINVAL (shut down before it knew of its failure),
  /// and that with which it has failed.
  std::expected<Connecting, int> connect();
  bool is_connecting() const { return phase_ == Phase::connecting; }
  /// There is a peer whose name may be asked for.
  bool has_peer() const { return stream_->state() == Stream::State::open; }

  /// Errors: EPIPE, ENOTCONN, …: see Stream.
  Answer send(std::span<const std::byte> bytes, const void* caller = nullptr);
  /// Null: it is a stream of bytes.
  Endpoint* endpoint() const { return endpoint_.get(); }
  bool has_message() const { return endpoint_ && endpoint_->has_message(); }
  /// SO_ERROR.
  int take_error() { return endpoint_ ? endpoint_->take_error() : stream_->take_error(); }
  /// Of a message the whole length, if that is more than out.size().
  Answer receive(std::span<std::byte> out, bool peek);
  /// Of a socket that keeps messages: see Endpoint::take().
  std::expected<Endpoint::Message, int> take_message(bool peek);
  /// About as many bytes as receive() would copy now, if there were room for them.
  std::size_t unread() const { return endpoint_ ? endpoint_->unread() : stream_->unread(); }
  /// Errors: ENOTCONN.
  Answer shutdown(unsigned how);
  void close(bool abort);
  short events() const;

 private:
  enum class Phase { unconnected, connecting, connected, disconnecting };  // SS_… of the kernel's

  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Messages> messages_;  // null: it is no SEQPACKET
  std::shared_ptr<Endpoint> endpoint_;  // null: it is a stream of bytes
  std::unique_ptr<Backlog> backlog_;
  Phase phase_ = Phase::unconnected;
};

}  // namespace rdmc::sockets
