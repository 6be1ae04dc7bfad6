// The use of connections: send, receive, shutdown, close, and poll.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
bool Stack::may_wait(const OpenSocket& socket, int flags) {
  return !socket.non_blocking && (flags & MSG_DONTWAIT) == 0;
}

void Stack::raise_broken_pipe(Lock& lock) {
  const Unlocked unlocked(lock);
  ::raise(SIGPIPE);  // raise() sends the signal to this thread.
}

Answer Stack::send(int fd, std::span<const std::byte> bytes, int flags) {
  bool is_touched = bytes.data() != nullptr;
  if (is_touched) touch(bytes.first(std::min(bytes.size(), Stream::kMostCopied)));
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR)) != 0) return std::unexpected(EOPNOTSUPP);
  if (bytes.data() == nullptr && !bytes.empty()) return std::unexpected(EFAULT);
  const Held socket = std::move(*found);
  const bool waits = may_wait(*socket, flags);
  const Time deadline = deadline_of(socket->send_timeout);
  // The next call reports why no more can be sent.
  const auto goes_on = [&] { return (socket->socket.events() & (POLLERR | POLLHUP)) == 0; };
  std::size_t done = 0;
  const auto send_rest = [&](const void* caller) {
    return send_some(lock, socket->socket, bytes.subspan(done), std::exchange(is_touched, false), caller);
  };
  const auto take_back = [&] {
    const auto gone = socket->socket.stream()->take_back(&done);
    done += gone.value_or(0);
    return gone.has_value();
  };
  Answer sent = 0;
  try {
    do {
      sent = until_done(
          lock, socket, waits, deadline, [&] { return send_rest(waits ? &done : nullptr); }, EAGAIN,
          Wants::room);
      done += sent.value_or(0);
    } while (sent && done < bytes.size() && goes_on());
    // Copies as many of the lent bytes as there is space for. The result is the same as if these bytes had
    // never been lent.
    if (take_back() && done < bytes.size() && goes_on()) done += send_rest(nullptr).value_or(0);
  } catch (const std::bad_alloc&) {  // The bytes that the call lends belong to the caller again.
    take_back();
    if (done == 0) throw;
    return done;
  }
  // A caller may conclude that the socket is full in two cases: after EAGAIN, and after a call that has sent
  // fewer bytes than the caller wanted (epoll(7)). It may then wait for the next edge, so the socket is
  // shown as full.
  if (!sent && sent.error() == EAGAIN) socket->show_full();
  if (sent || done > 0) return done;
  if (sent.error() == EPIPE && (flags & MSG_NOSIGNAL) == 0) raise_broken_pipe(lock);
  return sent;
}

Answer Stack::receive(int fd, std::span<std::byte> out, int flags, int* said,
                      std::optional<rdmc_member_event>* event) {
  Bounce bounce(out);  // The bounce buffer must outlive the lock.
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const bool of_messages = (*found)->socket.keeps_messages();
  const int known = MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL | MSG_NOSIGNAL | (of_messages ? MSG_TRUNC : 0) |
                    ((*found)->group ? MSG_ZEROCOPY : 0);
  if ((flags & ~known) != 0) return std::unexpected(EOPNOTSUPP);
  if (out.data() == nullptr && !out.empty()) return std::unexpected(EFAULT);
  const Held socket = std::move(*found);
  if (of_messages) return receive_whole(lock, socket, out, flags, said, event, bounce);
  const bool waits = may_wait(*socket, flags);
  const bool peek = (flags & MSG_PEEK) != 0;
  const bool wants_all = (flags & MSG_WAITALL) != 0 && !peek;
  const Time deadline = deadline_of(socket->receive_timeout);
  for (std::size_t done = 0;;) {
    // The next call reports why no more can be received.
    if (done > 0 && (socket->socket.events() & POLLERR) != 0) return done;
    const auto got = until_done(
        lock, socket, waits, deadline,
        [&] { return receive_some(lock, socket->socket, out.subspan(done), peek, bounce); }, EAGAIN,
        Wants::bytes);
    // As in Linux, a call with an empty buffer waits for bytes and then returns 0.
    const bool has_waited = !got && waits && (got.error() == EAGAIN || got.error() == EINTR);
    if (has_waited && out.empty()) return 0;
    if (!got) return done > 0 ? Answer(done) : got;
    done += *got;
    if (*got == 0 || done == out.size() || !wants_all) return done;
  }
}

Answer Stack::shutdown(int fd, int how) {
  std::optional<control::Listener> listener;  // This must be destroyed without the lock.
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  OpenSocket& socket = **found;
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return std::unexpected(EINVAL);
  if (socket.group) return std::unexpected(EOPNOTSUPP);
  const auto answer = socket.socket.shutdown(static_cast<unsigned>(how) + 1);
  if (socket.listener && socket.socket.backlog() == nullptr) {
    listener = stop_listening(socket);
    ::shutdown(socket.kernel(), SHUT_RD);
    socket.is_bound = socket.port_was_named;  // The state must be the same as that of the kernel's socket.
  }
  socket.on_change(false);
  deliver_own();
  return answer;
}

Answer Stack::close(int fd, bool may_linger) {
  const UnderWay counted(under_way_);
  std::optional<control::Listener> listener;  // This must be destroyed without the lock.
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  Held socket = std::move(*found);
  // Other threads' calls end now, even if this close lingers.
  socket->is_closing = true;
  socket->pollable.reset();
  socket->on_change(false);
  if (socket->group && may_linger) linger_for_group(lock, socket);
  listener = stop_listening(*socket);
  const auto& stream = socket->socket.stream();
  socket->socket.close(socket->linger_seconds == 0);
  deliver_own();
  if (may_linger && socket->linger_seconds.value_or(0) > 0) {
    stream->watch(socket.get());
    const auto is_flushed = [&]() -> Answer {
      const bool is_done = stream->is_flushed() || stream->state() == Stream::State::closed;
      return is_over_ || is_done ? Answer(0) : std::unexpected(EAGAIN);
    };
    const Time deadline = deadline_of(seconds(*socket->linger_seconds));
    (void)keep_trying(lock, socket, true, deadline, is_flushed, EAGAIN, Wants::change);
    stream->watch(nullptr);
  }
  // This is done under the lock, so that no thread sees an open descriptor that is not a socket.
  sockets_.erase(fd);
  socket->tcp.reset();
  socket->owned.reset();
  const auto session = socket->session;
  const Leaving leaving = leaving_of(*socket, may_linger);
  socket.reset();  // This is also done under the lock, because it destroys the socket's stream.
  lock.unlock();
  listener.reset();
  if (session) leave_group(leaving);
  return 0;
}

Answer Stack::pollfd_of(int fd) {
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  OpenSocket& socket = **found;
  if (!socket.pollable) {
    Descriptor tcp(::fcntl(socket.descriptor, F_DUPFD_CLOEXEC, 0));
    if (!tcp) return std::unexpected(errno);
    auto pollable = Pollable::replace(socket.descriptor);
    if (!pollable) return std::unexpected(EMFILE);
    socket.tcp = std::move(tcp);
    socket.pollable = std::make_unique<Pollable>(std::move(*pollable));
    socket.refresh();
  }
  return static_cast<std::size_t>(fd);
}

short Stack::events(int fd, short wanted) {
  const Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return POLLNVAL;
  return static_cast<short>((*found)->socket.events() & (wanted | POLLERR | POLLHUP));
}

Answer Stack::poll(std::span<pollfd> descriptors, int timeout_ms) {
  if (descriptors.data() == nullptr && !descriptors.empty()) return std::unexpected(EFAULT);
  const Time deadline = timeout_ms < 0 ? Time::never() : monotonic_now() + milliseconds(timeout_ms);
  std::vector<bool> is_ours(descriptors.size());
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    is_ours[i] = descriptors[i].fd >= 0 && has(descriptors[i].fd);
    if (!is_ours[i]) continue;
    if (auto ready = pollfd_of(descriptors[i].fd); !ready && ready.error() != EBADF) return ready;
  }
  for (Duration rest{};;) {
    const timespec patience{.tv_sec = rest.ns / 1'000'000'000, .tv_nsec = rest.ns % 1'000'000'000};
    const int polled = ::ppoll(descriptors.data(), descriptors.size(),
                               rest == Time::never() - Time{} ? nullptr : &patience, nullptr);
    if (polled < 0) return std::unexpected(errno);
    std::size_t count = 0;
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      pollfd& each = descriptors[i];
      // The result is POLLNVAL if the socket was closed meanwhile.
      if (is_ours[i]) each.revents = events(each.fd, each.events);
      count += each.revents != 0;
    }
    const Time now = monotonic_now();
    if (count != 0 || now >= deadline) return count;
    rest = deadline == Time::never() ? Time::never() - Time{} : deadline - now;
  }
}

}  // namespace rdmc::sockets
