#include "apps/replicated-kv/server/client_sockets.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "apps/replicated-kv/server/socket_address.hpp"

namespace rdmc::kv {

namespace {

constexpr std::size_t kReadBytes = 16 << 10;
constexpr int kBacklog = 511;
/// An output with at most this capacity keeps its memory when it is empty.
constexpr std::size_t kKeptOutputBytes = 64 << 10;
constexpr Milliseconds kListenAgain = 1000;

Descriptor open_spare() {
  return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Result<ClientSockets> ClientSockets::listen(const Address& address, int epoll, Service& service) {
  Descriptor listener(
      ::socket(address.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return fail_errno("socket", errno);
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage storage;
  socklen_t size = to_socket_address(address, storage);
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0 ||
      ::listen(listener.get(), kBacklog) != 0)
    return fail_errno("cannot listen on " + to_string(address), errno);
  size = sizeof(storage);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &size);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kListenKey}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, listener.get(), &event) != 0) return fail_errno("epoll", errno);
  ClientSockets sockets(std::move(listener), from_socket_address(storage), epoll, service);
  sockets.spare_ = open_spare();
  return sockets;
}

bool ClientSockets::on_event(std::uint64_t key, std::uint32_t events, Moment now) {
  if (key < kListenKey) return false;
  if (key == kListenKey) {
    accept_all(now);
    return true;
  }
  const auto known = sockets_.find(key - kFirstClientKey);
  if (known == sockets_.end()) return true;
  Socket& socket = known->second;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    close(socket);
  } else if ((events & EPOLLIN) != 0) {
    read(socket, now);
  } else if ((events & EPOLLOUT) != 0) {
    if (!write(socket)) return close(socket), true;
    // Requests may have waited for space.
    service_->execute(*socket.client, now);
    watch(socket);
  }
  return true;
}

void ClientSockets::accept_all(Moment now) {
  for (;;) {
    sockaddr_storage storage;
    socklen_t size = sizeof(storage);
    Descriptor fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&storage), &size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno == EMFILE || errno == ENFILE) && refuse_without_descriptor(errno, now)) continue;
      return;
    }
    if (service_->clients() >= static_cast<std::size_t>(service_->settings().number("maxclients"))) {
      constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";
      service_->reject_connection();
      static_cast<void>(::send(fd.get(), kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
      continue;
    }
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    Client& client = service_->connect(to_string(from_socket_address(storage)), now);
    Socket& socket = sockets_[client.number];
    epoll_event event{.events = EPOLLIN, .data = {.u64 = client.number + kFirstClientKey}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd.get(), &event) != 0) {
      sockets_.erase(client.number);
      service_->disconnect(client);
      return;
    }
    has_said_no_descriptor_ = false;
    socket.fd = std::move(fd);
    socket.client = &client;
    socket.events = EPOLLIN;
  }
}

/// A connection that cannot be accepted would make the listening socket readable for ever. So the spare
/// descriptor is used to accept it and to close it. Returns false if no further connection can be refused at
/// present. Without a spare descriptor, the socket is left alone for a second.
bool ClientSockets::refuse_without_descriptor(int error, Moment now) {
  bool has_refused = false;
  if (spare_) {
    spare_ = {};
    {
      const Descriptor refused(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      has_refused = static_cast<bool>(refused);
    }
    spare_ = open_spare();
  }
  if (has_refused) {
    service_->reject_connection();
    if (!std::exchange(has_said_no_descriptor_, true))
      complaints_.push_back("connections of clients are refused: " + std::string(std::strerror(error)));
  }
  if (spare_) return has_refused;
  listens_again_ = now.steady + kListenAgain;
  watch_listener(0);
  return false;
}

void ClientSockets::watch_listener(std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = kListenKey}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, listener_.get(), &event);
}

void ClientSockets::listen_again(Moment now) {
  if (listens_again_ == 0 || now.steady < listens_again_) return;
  listens_again_ = 0;
  if (!spare_) spare_ = open_spare();
  watch_listener(EPOLLIN);
}

void ClientSockets::read(Socket& socket, Moment now) {
  Client& client = *socket.client;
  if (!service_->is_full(client)) {
    const auto space = client.parser.space(kReadBytes);
    const ssize_t got = ::recv(socket.fd.get(), space.data(), space.size(), 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return close(socket);
    // The client sends nothing more, but may read the replies that it waits for.
    if (got == 0 && (client.answers.empty() || client.may_be_waiting)) return close(socket);
    if (got == 0) client.is_closing = true;
    if (got > 0) {
      client.parser.received(static_cast<std::size_t>(got));
      service_->received(client, static_cast<std::size_t>(got));
    }
  } else {
    service_->want_to_send(client);
  }
  service_->execute(client, now);
}

bool ClientSockets::write(Socket& socket) {
  std::string& output = socket.client->output;
  const std::size_t before = socket.written;
  while (socket.written < output.size()) {
    const ssize_t sent =
        ::send(socket.fd.get(), output.data() + socket.written, output.size() - socket.written, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      const std::size_t written = socket.written - before;
      // What was written is removed now and then, because a client may always be a little late.
      if (socket.written > std::max(kKeptOutputBytes, output.size() / 2))
        output.erase(0, std::exchange(socket.written, 0));
      if (written > 0) service_->sent(*socket.client, written);
      return true;
    }
    if (sent <= 0) return false;
    socket.written += static_cast<std::size_t>(sent);
  }
  const std::size_t written = socket.written - before;
  socket.written = 0;
  if (output.capacity() > kKeptOutputBytes)
    output = {};
  else
    output.clear();
  if (written > 0) service_->sent(*socket.client, written);
  return true;
}

void ClientSockets::watch(Socket& socket) {
  const Client& client = *socket.client;
  const std::uint32_t wanted =
      (service_->may_receive(client) && !client.is_closing ? std::uint32_t{EPOLLIN} : 0) |
      (client.output.empty() ? 0 : std::uint32_t{EPOLLOUT});
  if (wanted == socket.events) return;
  socket.events = wanted;
  epoll_event event{.events = wanted, .data = {.u64 = client.number + kFirstClientKey}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket.fd.get(), &event);
}

void ClientSockets::close(Socket& socket) {
  Client& client = *socket.client;
  const std::uint64_t number = client.number;
  sockets_.erase(number);
  service_->disconnect(client);
}

void ClientSockets::stop_listening() {
  listener_ = {};
  listens_again_ = 0;
  for (auto& [number, socket] : sockets_) watch(socket);
}

void ClientSockets::close_all() {
  while (!sockets_.empty()) close(sockets_.begin()->second);
}

void ClientSockets::write_changed(Moment now) {
  listen_again(now);
  for (const std::uint64_t number : service_->take_changed()) {
    const auto known = sockets_.find(number);
    if (known == sockets_.end()) continue;
    Socket& socket = known->second;
    if (socket.client->is_lost || !write(socket) ||
        (socket.client->is_closing && socket.client->output.empty() && socket.client->answers.empty())) {
      close(socket);
      continue;
    }
    // Requests may have waited for space.
    if (socket.client->is_stopped && !service_->is_full(*socket.client))
      service_->execute(*socket.client, now);
    watch(socket);
  }
}

}  // namespace rdmc::kv
