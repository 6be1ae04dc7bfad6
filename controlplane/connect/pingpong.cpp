#include "controlplane/connect/pingpong.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "controlplane/connect/socket.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::control {
namespace {

/// The message with which the client reports that its queue pair is ready. It includes the NUL.
constexpr char kDone[] = "done";

/// Waits until one of `sockets` is ready for its events.
Result<void> wait_for(std::span<pollfd> sockets, Time deadline, std::string_view what) {
  for (;;) {
    const std::int64_t left = (deadline - monotonic_now()).ns;
    if (left <= 0) return fail(Errc::timed_out, std::string(what));
    const auto milliseconds = static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, 1'000'000));
    const int ready = ::poll(sockets.data(), sockets.size(), milliseconds);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_socket("poll", errno);
  }
}

Result<void> wait_for(int socket, short events, Time deadline) {
  pollfd one{.fd = socket, .events = events, .revents = 0};
  return wait_for({&one, 1}, deadline, "the peer did not answer in time");
}

}  // namespace

Result<PingpongConnection> PingpongConnection::connect(const Address& server, Time deadline) {
  auto socket = begin_connect(server);
  if (!socket) return std::unexpected(socket.error());
  if (auto ready = wait_for(socket->get(), POLLOUT, deadline); !ready) return std::unexpected(ready.error());
  if (const int error = connect_result(socket->get()); error != 0)
    return fail_socket(to_string(server), error);
  return PingpongConnection(std::move(*socket), false);
}

Result<PingpongConnection> PingpongConnection::accept(std::uint16_t tcp_port, Time deadline) {
  std::array<Descriptor, 2> listeners;
  std::array<pollfd, 2> waiting;
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    auto listener = listen_on(Address{.ipv6 = i == 1, .port = tcp_port});
    // If the host has no IPv6, only IPv4 is used.
    if (!listener && i == 0) return std::unexpected(listener.error());
    if (listener) listeners[i] = std::move(*listener);
    waiting[i] = {.fd = listeners[i].get(), .events = POLLIN, .revents = 0};
  }
  for (;;) {
    if (auto ready = wait_for(waiting, deadline, "no client came"); !ready)
      return std::unexpected(ready.error());
    for (const pollfd& one : waiting) {
      if (one.revents == 0) continue;
      Address peer;
      auto socket = accept_one(one.fd, peer);
      if (socket) return PingpongConnection(std::move(*socket), true);
      if (socket.error().code != Errc::would_block) return std::unexpected(socket.error());
    }
  }
}

Address PingpongConnection::local() const {
  return local_address(socket_.get());
}

Result<void> PingpongConnection::wait(short events, Time deadline) const {
  pollfd one{.fd = socket_.get(), .events = events, .revents = 0};
  while (turn_ && monotonic_now() < deadline) {
    if (::poll(&one, 1, 0) > 0) return {};
    turn_();
  }
  return wait_for(socket_.get(), events, deadline);
}

Result<void> PingpongConnection::write(std::span<const std::byte> bytes, Time deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (auto ready = wait(POLLOUT, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return fail_socket("the peer", errno);
    }
  }
  return {};
}

Result<void> PingpongConnection::read(std::span<std::byte> bytes, Time deadline) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return fail(Errc::peer_failed, "the peer hung up");
    } else if (errno == EAGAIN) {
      if (auto ready = wait(POLLIN, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return fail_socket("the peer", errno);
    }
  }
  return {};
}

// The client sends its line first. The server sends its line only when its queue pair is ready, because the
// client's first SEND may follow at once. With "done", the client reports that its own queue pair is ready.
Result<void> PingpongConnection::exchange(const PingpongEnd& ours,
                                          const std::function<Result<void>(const PingpongEnd&)>& made_ready,
                                          Time deadline) {
  const auto line = encode_pingpong(ours);
  std::array<std::byte, kPingpongLineBytes> theirs;
  std::array<std::byte, sizeof kDone> done;
  if (!server_) {
    if (auto written = write(line, deadline); !written) return written;
  }
  if (auto got = read(theirs, deadline); !got) return got;
  const auto peer = decode_pingpong(theirs);
  if (!peer) return std::unexpected(peer.error());
  if (auto ready = made_ready(*peer); !ready) return ready;
  if (server_) {
    if (auto written = write(line, deadline); !written) return written;
    return read(done, deadline);
  }
  return write(std::as_bytes(std::span(kDone)), deadline);
}

}  // namespace rdmc::control
