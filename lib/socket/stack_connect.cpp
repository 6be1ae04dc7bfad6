// The beginning of connections: bind, listen, accept, connect.
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "controlplane/connect/socket.hpp"
#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/shm/process_memory.hpp"
#include "dataplane/port/network_interface.hpp"
#include "lib/socket/errno_of.hpp"
#include "lib/socket/lane_memory.hpp"
#include "lib/socket/peering.hpp"

namespace rdmc::sockets {
namespace {

/// The time limit for finding a peer's process and proving the key.
constexpr Duration kDialing = seconds(30);

void set_host(Address& address, Address host) {
  host.port = address.port;
  address = host;
}

/// True if `address` belongs to this host. This is so if packets to `address` also have it as their source
/// address.
bool is_own(const Address& address) {
  if (is_loopback(address)) return true;
  const auto from = port::local_address_towards(address);
  return from && host_string(*from) == host_string(address);
}

/// Converts a socket address. Errors: EFAULT (null), EINVAL (too short), EOPNOTSUPP (AF_UNSPEC),
/// EAFNOSUPPORT.
std::expected<Address, int> parse(const sockaddr* address, socklen_t length, bool ipv6) {
  if (address == nullptr) return std::unexpected(EFAULT);
  if (length < sizeof(sa_family_t)) return std::unexpected(EINVAL);
  const socklen_t least = ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (address->sa_family == AF_UNSPEC)
    return std::unexpected(EOPNOTSUPP);  // This would undo a connect, which is impossible here.
  if (length < least) return std::unexpected(EINVAL);
  if (address->sa_family != (ipv6 ? AF_INET6 : AF_INET)) return std::unexpected(EAFNOSUPPORT);
  sockaddr_storage storage{};
  std::memcpy(&storage, address, least);
  return control::from_sockaddr(storage);
}

/// Binds the socket to any free port if it is not bound. Returns 0 or an errno.
int bind_anywhere(OpenSocket& socket) {
  if (socket.is_bound) return 0;
  sockaddr_storage storage;
  const socklen_t length = control::to_sockaddr(Address{.ipv6 = socket.ipv6}, storage);
  if (::bind(socket.kernel(), reinterpret_cast<sockaddr*>(&storage), length) != 0) return errno;
  socket.is_bound = true;
  return 0;
}

/// Gives the port back. Linux does this after a connection if the application had not chosen the port number.
/// Only listen() followed by shutdown() makes the kernel unbind the port.
void give_port_back(OpenSocket& socket) {
  socket.has_tried = false;
  if (!std::exchange(socket.is_bound, false)) return;
  ::listen(socket.kernel(), 0);
  ::shutdown(socket.kernel(), SHUT_RD);
}

}  // namespace

Answer Stack::bind(int fd, const sockaddr* address, socklen_t length) {
  const Lock lock(lock_);
  const auto socket = find(fd);
  if (!socket) return std::unexpected(socket.error());
  OpenSocket& at = **socket;
  if (at.socket.stream()->state() != Stream::State::closed || at.socket.backlog() != nullptr)
    return std::unexpected(EINVAL);
  if (at.has_tried && !at.port_was_named) give_port_back(at);
  if (::bind(at.kernel(), address, length) != 0) return std::unexpected(errno);
  const auto wanted = parse(address, length, at.ipv6);
  at.port_was_named = wanted && wanted->port != 0;
  at.is_bound = true;
  at.local = {};  // This address may belong to a connection that has ended.
  return 0;
}

Answer Stack::listen(int fd, int backlog) {
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  OpenSocket& socket = **found;
  if (auto may = socket.socket.check_listen(); !may) return may;
  if (socket.group && (socket.group->state() != GroupEnd::State::idle || socket.group_name.empty()))
    return std::unexpected(EINVAL);
  const auto most = static_cast<std::size_t>(std::clamp(backlog, 0, SOMAXCONN));
  if (socket.listener) return socket.socket.listen(most), 0;
  const auto with = peers();
  if (!with) return std::unexpected(errno_of(with.error()));
  if (const int error = bind_anywhere(socket)) return std::unexpected(error);
  // The kernel's backlog is for control connections only. This stack keeps its own backlog.
  if (::listen(socket.kernel(), SOMAXCONN) != 0) return std::unexpected(errno);
  Descriptor listening(::fcntl(socket.kernel(), F_DUPFD_CLOEXEC, 0));
  if (!listening) return std::unexpected(errno);
  auto listener = (*with)->adopt(std::move(listening), {.channel = (*with)->options()});
  if (!listener) return std::unexpected(errno_of(listener.error()));
  socket.listener = std::move(*listener);
  socket.local = socket.listener->address();
  listeners_.emplace(socket.local.port, &socket);
  if (socket.group) {
    begin_group(socket);
    return socket.group->begin(true), 0;
  }
  socket.socket.listen(most);
  socket.on_change(false);
  return 0;
}

/// Stops listening. Must be called with the lock. The caller must destroy the result without the lock,
/// because the destructor waits for the control loop.
std::optional<control::Listener> Stack::stop_listening(OpenSocket& socket) {
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &socket; });
  return std::exchange(socket.listener, std::nullopt);
}

Answer Stack::accept(int fd, sockaddr* address, socklen_t* length, int flags) {
  if ((flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != 0) return std::unexpected(EINVAL);
  if (address != nullptr && length == nullptr) return std::unexpected(EFAULT);
  Lock lock(lock_);
  const auto listener = find(fd);
  if (!listener) return std::unexpected(listener.error());
  // The descriptor is made first. If there is none left, the connection stays for the next call.
  Descriptor kernel(::socket((*listener)->ipv6 ? AF_INET6 : AF_INET,
                             SOCK_STREAM | SOCK_NONBLOCK | (flags & SOCK_CLOEXEC), 0));
  if (!kernel) return std::unexpected(errno);
  auto taken =
      until_done(lock, *listener, !(*listener)->non_blocking, deadline_of((*listener)->receive_timeout),
                 [&] { return (*listener)->socket.accept(); });
  if (!taken) return std::unexpected(taken.error());
  const auto added = add(std::move(kernel), (*listener)->ipv6, Socket(taken->stream), flags, *listener);
  OpenSocket& socket = *sockets_.at(static_cast<int>(*added));
  socket.local = taken->asked.to;
  socket.peer = taken->asked.from;
  if (address != nullptr) {
    const Unlocked unlocked(lock);
    (void)get_name(static_cast<int>(*added), address, length, true);
  }
  return added;
}

Answer Stack::connect(int fd, const sockaddr* address, socklen_t length) {
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const Held socket = std::move(*found);
  const auto to = parse(address, length, socket->ipv6);
  if (!to) return std::unexpected(to.error());
  if (socket->group) return join(lock, socket, *to);
  const auto began = socket->socket.connect();
  if (!began) return std::unexpected(began.error());
  if (*began == Socket::Connecting::succeeded) return 0;
  if (*began == Socket::Connecting::begins) {
    if (const int error = begin_connect(socket, *to)) socket->socket.stream()->on_refused(error);
    if (socket->non_blocking) {
      deliver_own();
      return std::unexpected(EINPROGRESS);
    }
  } else if (socket->non_blocking) {
    return std::unexpected(EALREADY);
  }
  return until_done(
      lock, socket, true, deadline_of(socket->send_timeout),
      [&]() -> Answer {
        const auto state = socket->socket.connect();
        if (!state) return std::unexpected(state.error());
        if (*state == Socket::Connecting::succeeded) return 0;
        return std::unexpected(EAGAIN);
      },
      EINPROGRESS);
}

/// Starts to connect. Returns 0, or an errno if the socket cannot be bound or there is no route to the peer.
/// Later errors are reported to the stream.
int Stack::begin_connect(const Held& socket, const Address& to) {
  socket->has_tried = true;
  socket->dial_was_cached = false;
  socket->peer = to;
  if (is_wildcard(to)) {  // A wildcard address means this host, as in Linux.
    if (to.ipv6)
      socket->peer.bytes[15] = 1;
    else
      socket->peer.bytes = {127, 0, 0, 1};
  }
  if (const int error = bind_anywhere(*socket)) return error;
  socket->local = control::local_address(socket->kernel());
  if (find_listener(socket->peer, false) != nullptr && is_own(socket->peer)) {
    if (is_wildcard(socket->local)) {
      const auto from = port::local_address_towards(socket->peer);
      if (!from) return EHOSTUNREACH;
      set_host(socket->local, *from);
    }
    if (own_near_->is_lost()) {  // own_near_ ended because memory had run out. There may be memory now.
      auto far = make_own(false);
      own_near_ = make_own(true);
      own_far_ = std::move(far);
    }
    if (!own_near_->has_lanes()) {
      const auto own = std::make_shared<const fabric::shm::ProcessMemory>(getpid(), Descriptor());
      if (const auto lanes = make_lane_pools(own)) {
        own_near_->use_lanes(lanes->first, false);
        own_far_->use_lanes(lanes->second, true);
      }
    }
    own_near_->open(socket->socket.stream(), socket->local, socket->peer);
    return 0;
  }
  const auto known = known_.find(socket->peer);
  if (known == known_.end() || known->second.mux->is_lost()) {
    dial(socket);
    return 0;
  }
  socket->dial_was_cached = true;
  if (is_wildcard(socket->local)) set_host(socket->local, known->second.local);
  known->second.mux->open(socket->socket.stream(), socket->local, socket->peer);
  return 0;
}

/// Returns the socket of this stack that listens at `at`. Returns the root of a group if `of_group`,
/// otherwise another socket. Returns null if there is no such socket.
OpenSocket* Stack::find_listener(const Address& at, bool of_group) const {
  const auto [first, last] = listeners_.equal_range(at.port);
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    const Address& local = entry.second->local;
    if ((entry.second->group != nullptr) != of_group) return false;
    return local == at || (is_wildcard(local) && local.ipv6 == at.ipv6);
  });
  return found == last ? nullptr : found->second;
}

bool Stack::on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) {
  // The peer itself chooses the address `asked.to`. A trunk from another host must not reach sockets that
  // listen for this host only.
  const auto mux = asked.mux.lock();
  if (mux && mux->is_elsewhere() && is_loopback(asked.to)) return false;
  OpenSocket* const listener = find_listener(asked.to, false);
  if (listener == nullptr || listener->socket.kind() != asked.kind) return false;
  if (!listener->socket.backlog()->add({asked, stream})) return false;
  listener->on_change(true);
  return true;
}

/// Called when the process that was known at that address has refused. Another process may listen there now,
/// so this dials again.
bool Stack::on_refused(const std::shared_ptr<Stream>& stream) {
  const auto found = std::ranges::find_if(
      sockets_, [&](const auto& entry) { return entry.second->socket.stream() == stream; });
  if (found == sockets_.end() || !std::exchange(found->second->dial_was_cached, false)) return false;
  known_.erase(found->second->peer);
  dial(found->second);
  return true;
}

void Stack::dial(const Held& socket) {
  const auto with = peers();
  if (!with) {
    socket->socket.stream()->on_refused(errno_of(with.error()));
    return;
  }
  const Address at = socket->peer;
  const auto [dial, is_new] = dials_.try_emplace(at);
  // Each socket is in the list only once, even if it has given up and tries again.
  auto& waiting = dial->second.waiting;
  if (std::ranges::find(waiting, socket) == waiting.end()) waiting.push_back(socket);
  if (!is_new) return;
  dial->second.attempt =
      (*with)->dial(host_string(at), at.port, kDialing, [this, at](const Result<peer::Peer>& process) {
        if (process) return Peering::find(*this, *process, at);
        on_dialled(at, std::unexpected(process.error()), {});
      });
}

/// Called with the outcome of a dial, on the control loop.
void Stack::on_dialled(const Address& at, const Result<std::shared_ptr<Mux>>& mux, const Address& local) {
  Dial dial;
  const Lock lock(lock_);
  if (const auto found = dials_.find(at); found != dials_.end()) {
    dial = std::move(found->second);
    dials_.erase(found);
  }
  const auto waiting = std::move(dial.waiting);  // This is destroyed before the lock is released, even if an
                                                 // exception is thrown.
  if (mux) known_[at] = {*mux, local};
  for (const Held& socket : waiting) {
    const auto& stream = socket->socket.stream();
    if (stream->state() != Stream::State::connecting || socket->peer != at) continue;
    if (!mux) {
      stream->on_refused(errno_of(mux.error()));
      continue;
    }
    if (is_wildcard(socket->local)) set_host(socket->local, local);
    (*mux)->open(stream, socket->local, at);
  }
}

}  // namespace rdmc::sockets
