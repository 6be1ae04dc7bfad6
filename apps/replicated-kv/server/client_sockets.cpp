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

#include "apps/replicated-kv/log/forked_child.hpp"
#include "apps/replicated-kv/server/socket_address.hpp"

namespace rdmc::kv {

namespace {

constexpr std::size_t kReadBytes = 16 << 10;
static_assert(kReadBytes >= TlsStream::kMostRecordBytes);
constexpr int kBacklog = 511;
/// An output with at most this capacity keeps its memory when it is empty.
constexpr std::size_t kKeptOutputBytes = 64 << 10;
constexpr Milliseconds kListenAgain = 1000;

/// Lets the kernel ask whether the client still exists when nothing has come for `seconds`, with three
/// questions in the same time again, as Redis does. 0 means never.
void keep_alive(int socket, std::int64_t seconds) {
  if (seconds == 0) return;
  constexpr int kQuestions = 3, kMostSeconds = 32'767;  // Linux takes no more seconds.
  const int idle = static_cast<int>(std::min<std::int64_t>(seconds, kMostSeconds));
  const int interval = std::max(idle / kQuestions, 1), on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kQuestions, sizeof(kQuestions));
}

Descriptor open_spare() {
  return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Result<ClientSockets::Listener> ClientSockets::open(const Address& address, int epoll, std::uint64_t key) {
  Descriptor listener(
      ::socket(address.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return fail_errno("socket", errno);
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage storage;
  socklen_t size = to_socket_address(address, storage);
  const auto bind = [&] {
    return ::bind(listener.get(), reinterpret_cast<sockaddr*>(&storage), size) == 0 ? 0 : errno;
  };
  const int bound = outlast_child(EADDRINUSE, bind);
  if (bound != 0 || ::listen(listener.get(), kBacklog) != 0)
    return fail_errno("cannot listen on " + to_string(address), bound != 0 ? bound : errno);
  size = sizeof(storage);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &size);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = key}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, listener.get(), &event) != 0) return fail_errno("epoll", errno);
  return Listener{std::move(listener), from_socket_address(storage)};
}

ClientSockets::ClientSockets(Listener plain, int epoll, Service& service)
    : plain_(std::move(plain)), spare_(open_spare()), epoll_(epoll), service_(&service) {}

Result<ClientSockets> ClientSockets::listen(const Address& address, int epoll, Service& service) {
  auto plain = open(address, epoll, kListenKey);
  if (!plain) return std::unexpected(plain.error());
  return ClientSockets(std::move(*plain), epoll, service);
}

Result<void> ClientSockets::listen_tls(const Address& address, TlsContext context, bool only) {
  auto listener = open(address, epoll_, kListenTlsKey);
  if (!listener) return std::unexpected(listener.error());
  tls_ = std::move(*listener);
  tls_context_ = std::move(context);
  needs_tls_ = only;
  return {};
}

bool ClientSockets::on_event(std::uint64_t key, std::uint32_t events, Moment now) {
  if (key < kListenKey) return false;
  if (key < kFirstClientKey) {
    accept_all(key == kListenKey ? plain_ : tls_, now);
    return true;
  }
  const auto known = sockets_.find(key - kFirstClientKey);
  if (known == sockets_.end()) return true;
  Socket& socket = known->second;
  const bool has_ended =
      (events & (EPOLLHUP | EPOLLERR)) != 0 || ((events & EPOLLRDHUP) != 0 && socket.client->waits_for_space);
  if (has_ended) return close(socket), true;
  if (socket.is_in_handshake() && !continue_handshake(socket)) return true;
  const bool can_read = (events & EPOLLIN) != 0, can_write = (events & EPOLLOUT) != 0;
  if (can_write || (can_read && socket.write_needs_read)) {
    if (!write(socket)) return close(socket), true;
    // Requests may have waited for space.
    if (!can_read && !socket.read_needs_write) {
      service_->execute(*socket.client, now);
      return watch(socket), true;
    }
  }
  if (can_read || socket.read_needs_write) read(socket, now);
  return true;
}

void ClientSockets::accept_all(const Listener& listener, Moment now) {
  const bool is_tls = &listener == &tls_;
  for (;;) {
    sockaddr_storage storage;
    socklen_t size = sizeof(storage);
    Descriptor fd(::accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&storage), &size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno == EMFILE || errno == ENFILE) && refuse_without_descriptor(listener, errno, now)) continue;
      return;
    }
    if (service_->clients() >= static_cast<std::size_t>(service_->settings().number("maxclients"))) {
      constexpr std::string_view kRefusal = "-ERR max number of clients reached\r\n";
      service_->reject_connection();
      if (!is_tls)
        static_cast<void>(::send(fd.get(), kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
      continue;
    }
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    keep_alive(fd.get(), service_->settings().number("tcp-keepalive"));
    TlsStream stream;
    if (is_tls) {
      auto accepted = tls_context_->accept(fd.get());
      if (!accepted) continue;
      stream = std::move(*accepted);
    }
    Client& client = service_->connect(to_string(from_socket_address(storage)), now);
    client.needs_tls = needs_tls_ && !is_tls;
    Socket& socket = sockets_[client.number];
    epoll_event event{.events = EPOLLIN, .data = {.u64 = client.number + kFirstClientKey}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd.get(), &event) != 0) {
      sockets_.erase(client.number);
      service_->disconnect(client);
      return;
    }
    has_said_no_descriptor_ = false;
    socket.fd = std::move(fd);
    socket.tls = std::move(stream);
    socket.client = &client;
    socket.events = EPOLLIN;
    if (is_tls) begin_handshake(client.number, now);
  }
}

// -- Handshakes --

void ClientSockets::begin_handshake(std::uint64_t number, Moment now) {
  while (open_handshakes_ >= kMostHandshakes) {
    const auto oldest = sockets_.find(handshakes_.front().second);
    handshakes_.pop_front();
    if (oldest != sockets_.end() && oldest->second.is_in_handshake()) close(oldest->second);
  }
  ++open_handshakes_;
  handshakes_.emplace_back(now.steady + kLongestHandshake, number);
}

bool ClientSockets::continue_handshake(Socket& socket) {
  const TlsProgress progress = socket.tls.handshake();
  if (progress == TlsProgress::failed || progress == TlsProgress::ended) {
    close(socket);
    return false;
  }
  socket.read_needs_write = progress == TlsProgress::needs_write;
  if (progress == TlsProgress::done) --open_handshakes_;
  watch(socket);
  return progress == TlsProgress::done;
}

void ClientSockets::end_late_handshakes(Moment now) {
  while (!handshakes_.empty()) {
    const auto [end, number] = handshakes_.front();
    const auto known = sockets_.find(number);
    const bool is_open = known != sockets_.end() && known->second.is_in_handshake();
    if (is_open && end > now.steady) return;
    handshakes_.pop_front();
    if (is_open) close(known->second);
  }
}

std::optional<Milliseconds> ClientSockets::next_deadline() const {
  if (handshakes_.empty()) return std::nullopt;
  return handshakes_.front().first;
}

// -- Bytes --

ClientSockets::Outcome ClientSockets::receive(Socket& socket, std::span<char> space, std::size_t& got) {
  if (!socket.tls.is_used()) {
    const ssize_t result = ::recv(socket.fd.get(), space.data(), space.size(), 0);
    got = result > 0 ? static_cast<std::size_t>(result) : 0;
    if (result > 0) return Outcome::some;
    if (result == 0) return Outcome::ended;
    return errno == EAGAIN || errno == EINTR ? Outcome::nothing : Outcome::failed;
  }
  const TlsProgress progress = socket.tls.read(space, got);
  socket.read_needs_write = progress == TlsProgress::needs_write;
  switch (progress) {
    case TlsProgress::done: return Outcome::some;
    case TlsProgress::needs_read:
    case TlsProgress::needs_write: return Outcome::nothing;
    case TlsProgress::ended: return Outcome::ended;
    case TlsProgress::failed: break;
  }
  return Outcome::failed;
}

ClientSockets::Outcome ClientSockets::send(Socket& socket, std::span<const char> bytes, std::size_t& sent) {
  if (!socket.tls.is_used()) {
    ssize_t result = 0;
    do result = ::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    while (result < 0 && errno == EINTR);
    sent = result > 0 ? static_cast<std::size_t>(result) : 0;
    if (result > 0) return Outcome::some;
    return result < 0 && errno == EAGAIN ? Outcome::nothing : Outcome::failed;
  }
  const TlsProgress progress = socket.tls.write(bytes, sent);
  socket.write_needs_read = progress == TlsProgress::needs_read;
  if (progress == TlsProgress::done) return Outcome::some;
  const bool waits = progress == TlsProgress::needs_read || progress == TlsProgress::needs_write;
  return waits ? Outcome::nothing : Outcome::failed;
}

/// A connection that cannot be accepted would make the listening socket readable for ever. So the spare
/// descriptor is used to accept it and to close it. Returns false if no further connection can be refused at
/// present. Without a spare descriptor, the listening sockets are left alone for a second.
bool ClientSockets::refuse_without_descriptor(const Listener& listener, int error, Moment now) {
  bool has_refused = false;
  if (spare_) {
    spare_ = {};
    {
      const Descriptor refused(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
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
  watch_listeners(0);
  return false;
}

void ClientSockets::watch_listeners(std::uint32_t events) {
  epoll_event plain{.events = events, .data = {.u64 = kListenKey}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, plain_.fd.get(), &plain);
  if (!tls_.fd) return;
  epoll_event tls{.events = events, .data = {.u64 = kListenTlsKey}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, tls_.fd.get(), &tls);
}

void ClientSockets::listen_again(Moment now) {
  if (listens_again_ == 0 || now.steady < listens_again_) return;
  listens_again_ = 0;
  if (!spare_) spare_ = open_spare();
  watch_listeners(EPOLLIN);
}

void ClientSockets::read(Socket& socket, Moment now) {
  Client& client = *socket.client;
  if (!service_->is_full(client)) {
    std::size_t got = 0;
    const Outcome outcome = receive(socket, client.parser.space(kReadBytes), got);
    if (outcome == Outcome::failed) return close(socket);
    // The client sends nothing more, but may read the replies that it waits for.
    const bool has_ended = outcome == Outcome::ended;
    if (has_ended && (client.answers.empty() || client.may_be_waiting)) return close(socket);
    if (has_ended) client.is_closing = true;
    if (got > 0) {
      client.parser.received(got);
      service_->received(client, got);
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
    std::size_t sent = 0;
    const Outcome outcome = send(socket, std::span(output).subspan(socket.written), sent);
    if (outcome == Outcome::nothing) {
      const std::size_t written = socket.written - before;
      // What was written is removed now and then, because a client may always be a little late.
      if (socket.written > std::max(kKeptOutputBytes, output.size() / 2))
        output.erase(0, std::exchange(socket.written, 0));
      if (written > 0) service_->sent(*socket.client, written);
      return true;
    }
    if (outcome != Outcome::some) return false;
    socket.written += sent;
  }
  const std::size_t written = socket.written - before;
  socket.written = 0;
  if (output.capacity() > kKeptOutputBytes)
    std::string().swap(output);  // An assignment would keep the memory.
  else
    output.clear();
  if (written > 0) service_->sent(*socket.client, written);
  return true;
}

void ClientSockets::watch(Socket& socket) {
  const Client& client = *socket.client;
  const bool reads = socket.is_in_handshake() || socket.write_needs_read ||
                     (service_->may_receive(client) && !client.is_closing);
  const bool writes = socket.read_needs_write || (!client.output.empty() && !socket.write_needs_read);
  // A request that waits for space may wait for long. Its client may be gone.
  const bool looks_for_end = client.waits_for_space;
  const std::uint32_t wanted = (looks_for_end ? std::uint32_t{EPOLLRDHUP} : 0) |
                               (reads ? std::uint32_t{EPOLLIN} : 0) | (writes ? std::uint32_t{EPOLLOUT} : 0);
  if (wanted == socket.events) return;
  socket.events = wanted;
  epoll_event event{.events = wanted, .data = {.u64 = client.number + kFirstClientKey}};
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket.fd.get(), &event);
}

void ClientSockets::close(Socket& socket) {
  Client& client = *socket.client;
  const std::uint64_t number = client.number;
  if (socket.is_in_handshake()) --open_handshakes_;
  socket.tls.close();
  sockets_.erase(number);
  service_->disconnect(client);
}

void ClientSockets::stop_listening() {
  plain_.fd = {};
  tls_.fd = {};
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
    if (socket.is_in_handshake() && !socket.client->is_closing) continue;
    if (socket.client->is_lost || socket.is_in_handshake() || !write(socket) ||
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
