// A C++ interface to rdmc/socket.h: a descriptor that closes itself, spans instead of pointers and lengths,
// and std::expected instead of errno. Each function calls the C function of the same name, which is described
// in rdmc/socket.h. Any thread may call any function. A Socket must be destroyed or closed only when no other
// thread uses it any longer.
#pragma once

#include <netinet/in.h>
#include <rdmc/socket.h>
#include <cerrno>
#include <cstddef>
#include <expected>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace rdmc {

template <typename T>
using SocketResult = std::expected<T, std::error_code>;

class Socket {
 public:
  /// Makes a socket. `type` is SOCK_STREAM, SOCK_SEQPACKET or RDMC_GROUP, optionally with SOCK_NONBLOCK and
  /// SOCK_CLOEXEC.
  static SocketResult<Socket> open(int type, int domain = AF_INET) {
    return adopted(rdmc_socket(domain, type, 0));
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) rdmc_close(descriptor_);
  }

  int descriptor() const noexcept { return descriptor_; }

  template <typename SocketAddress>
  SocketResult<void> bind(const SocketAddress& address) {
    return done(rdmc_bind(descriptor_, as_sockaddr(address), sizeof address));
  }
  template <typename SocketAddress>
  SocketResult<void> connect(const SocketAddress& address) {
    return done(rdmc_connect(descriptor_, as_sockaddr(address), sizeof address));
  }
  SocketResult<void> listen(int backlog = SOMAXCONN) { return done(rdmc_listen(descriptor_, backlog)); }
  /// Calls rdmc_accept4() without asking for the peer's address.
  SocketResult<Socket> accept(int flags = 0) {
    return adopted(rdmc_accept4(descriptor_, nullptr, nullptr, flags));
  }

  /// Returns the number of bytes that were sent. A blocking socket sends all bytes.
  SocketResult<std::size_t> send(std::span<const std::byte> bytes, int flags = MSG_NOSIGNAL) {
    return counted(rdmc_send(descriptor_, bytes.data(), bytes.size(), flags));
  }
  SocketResult<std::size_t> send(std::string_view text, int flags = MSG_NOSIGNAL) {
    return send(std::as_bytes(std::span(text)), flags);
  }
  /// Returns the number of bytes received. 0 means the end of the stream.
  SocketResult<std::size_t> receive(std::span<std::byte> bytes, int flags = 0) {
    return counted(rdmc_recv(descriptor_, bytes.data(), bytes.size(), flags));
  }
  SocketResult<void> shutdown(int how) { return done(rdmc_shutdown(descriptor_, how)); }
  /// Closes the socket now and returns the result of closing.
  SocketResult<void> close() { return done(rdmc_close(std::exchange(descriptor_, -1))); }

  template <typename Value>
  SocketResult<void> set(int level, int name, const Value& value) {
    return done(rdmc_setsockopt(descriptor_, level, name, &value, sizeof value));
  }
  /// Sets the name of the group of an RDMC_GROUP socket. See RDMC_SO_GROUP.
  SocketResult<void> join_as(std::string_view group) {
    return done(rdmc_setsockopt(descriptor_, RDMC_SOL_SOCKET, RDMC_SO_GROUP, group.data(),
                                static_cast<socklen_t>(group.size())));
  }
  /// Returns the value of an option of the type int.
  SocketResult<int> get(int level, int name) const {
    int value = 0;
    socklen_t length = sizeof value;
    if (rdmc_getsockopt(descriptor_, level, name, &value, &length) != 0) return std::unexpected(failure());
    return value;
  }
  /// Returns the local address, with the port number that was assigned.
  template <typename SocketAddress = sockaddr_in>
  SocketResult<SocketAddress> name() const {
    SocketAddress address{};
    socklen_t length = sizeof address;
    if (rdmc_getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      return std::unexpected(failure());
    return address;
  }
  /// Returns a descriptor for epoll, poll and io_uring; see rdmc_pollfd().
  SocketResult<int> pollfd() {
    const int descriptor = rdmc_pollfd(descriptor_);
    if (descriptor < 0) return std::unexpected(failure());
    return descriptor;
  }

 private:
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  template <typename SocketAddress>
  static const sockaddr* as_sockaddr(const SocketAddress& address) {
    return reinterpret_cast<const sockaddr*>(&address);
  }
  static std::error_code failure() { return {errno, std::generic_category()}; }
  static SocketResult<void> done(int result) {
    if (result < 0) return std::unexpected(failure());
    return {};
  }
  static SocketResult<std::size_t> counted(ssize_t result) {
    if (result < 0) return std::unexpected(failure());
    return static_cast<std::size_t>(result);
  }
  static SocketResult<Socket> adopted(int descriptor) {
    if (descriptor < 0) return std::unexpected(failure());
    return Socket(descriptor);
  }

  int descriptor_;
};

}  // namespace rdmc
