// The state of a socket in addition to its stream: whether it listens, the connections that wait to be
// accepted, and the progress of connect(). Like Stream, it answers as Linux does (net/ipv4/af_inet.c), and it
// never blocks. It does no I/O. The owner of the socket keeps addresses and port numbers. The caller must
// hold the sockets' lock.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "lib/socket/messages.hpp"
#include "lib/socket/mux.hpp"
#include "lib/socket/stream.hpp"

namespace rdmc::sockets {

/// Connections that peers have asked for and that were not accepted yet. At most `most` + 1 of them are
/// already open for their peers. The peers of all other connections wait.
class Backlog {
 public:
  /// The most peers that wait because the backlog is full. Further peers are refused.
  static constexpr std::size_t kMostWaiting = 4096;

  /// `shut` has the directions that the listening socket had shut down. They are shut down in every new
  /// connection from its beginning.
  Backlog(std::size_t most, unsigned shut) : most_(most), shut_(shut) {}
  ~Backlog();
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  struct Connection {
    Asked asked;
    std::shared_ptr<Stream> stream;
  };
  void set_most(std::size_t most) { most_ = most; }
  /// Adds a connection. Returns false if too many peers wait.
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
  /// Makes a new socket of this kind, or a socket for the stream of an accepted connection.
  explicit Socket(ConnectionKind kind = ConnectionKind::bytes) : Socket(std::make_shared<Stream>(kind)) {
    phase_ = Phase::unconnected;
  }
  explicit Socket(std::shared_ptr<Stream> stream);
  /// Makes a member of a group, which needs no stream.
  explicit Socket(std::shared_ptr<Endpoint> member) : Socket() { endpoint_ = std::move(member); }

  ConnectionKind kind() const { return stream_->kind(); }
  bool keeps_messages() const { return endpoint_ != nullptr; }
  /// Reports changes to `watcher`. Null means no watcher.
  void watch(Watcher* watcher);
  const std::shared_ptr<Stream>& stream() const { return stream_; }
  Backlog* backlog() const { return backlog_.get(); }

  /// Checks if listen() would succeed. Errors: EINVAL.
  Answer check_listen() const;
  void listen(std::size_t backlog);
  /// Returns the next connection. Errors: EINVAL (the socket does not listen), EAGAIN.
  std::expected<Backlog::Connection, int> accept();

  enum class Connecting {
    begins,   ///< the socket was not connecting; the caller must find the peer and ask it for the connection
    goes_on,  ///< the peer has not answered yet
    succeeded,
  };
  /// Must be called by each connect() call, and again after each wait of that call. Errors: EISCONN, EINVAL
  /// (the socket was shut down before it knew of its failure), or the error with which connecting has failed.
  std::expected<Connecting, int> connect();
  bool is_connecting() const { return phase_ == Phase::connecting; }
  /// True if there is a peer, so that the application may ask for its address.
  bool has_peer() const { return stream_->state() == Stream::State::open; }

  /// Errors: those of Stream::send(), or of the message endpoint.
  Answer send(std::span<const std::byte> bytes, const void* caller = nullptr);
  /// Null if this is a stream of bytes.
  Endpoint* endpoint() const { return endpoint_.get(); }
  bool has_message() const { return endpoint_ && endpoint_->has_message(); }
  /// Returns the value of SO_ERROR and clears it.
  int take_error() { return endpoint_ ? endpoint_->take_error() : stream_->take_error(); }
  /// Receives bytes, or one message. For a message, returns the length of the whole message even if it is
  /// more than out.size().
  Answer receive(std::span<std::byte> out, bool peek);
  /// For sockets that keep messages. See Endpoint::take().
  std::expected<Endpoint::Message, int> take_message(bool peek);
  /// Returns roughly the number of bytes that receive() would copy now into a buffer that is large enough.
  std::size_t unread() const { return endpoint_ ? endpoint_->unread() : stream_->unread(); }
  /// Errors: ENOTCONN.
  Answer shutdown(unsigned how);
  void close(bool abort);
  short events() const;

 private:
  enum class Phase { unconnected, connecting, connected, disconnecting };  // the SS_... states of the kernel

  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Messages> messages_;  // null if this is not a SEQPACKET socket
  std::shared_ptr<Endpoint> endpoint_;  // null if this is a stream of bytes
  std::unique_ptr<Backlog> backlog_;
  Phase phase_ = Phase::unconnected;
};

}  // namespace rdmc::sockets
