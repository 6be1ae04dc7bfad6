// What is done with a connection: send, receive, shutdown, close; and waiting for several.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
namespace {

/// A reader looks so often at what a writer advertises and cancels, before it is content with what it has.
constexpr int kTries = 4;

/// Has the kernel bring what is not there yet.
void touch(std::span<const std::byte> bytes) {
  constexpr std::size_t kPage = 4096;
  for (std::size_t at = 0; at < bytes.size(); at += kPage)
    (void)*static_cast<const volatile std::byte*>(&bytes[at]);
  if (!bytes.empty()) (void)*static_cast<const volatile std::byte*>(&bytes.back());
}

}  // namespace

bool Stack::may_wait(const OpenSocket& socket, int flags) {
  return !socket.non_blocking && (flags & MSG_DONTWAIT) == 0;
}

void Stack::raise_broken_pipe(Lock& lock) {
  lock.unlock();
  ::raise(SIGPIPE);  // to this thread
}

/// Long copies are made without the lock: the engine has something to do meanwhile. Where they are made with
/// it, the pages that they need are waited for without it.
Answer Stack::send_some(Lock& lock, Socket& socket, std::span<const std::byte> bytes, const void* caller) {
  const auto stream = socket.stream();
  auto copy = socket.keeps_messages() ? std::nullopt : stream->begin_copy(bytes.size());
  if (!copy) {
    if (!socket.keeps_messages() && bytes.size() >= Stream::kLeastInSlot) {
      const bool lends = stream->would_lend(bytes.size(), caller);
      lock.unlock();
      touch(lends ? bytes.last(Stream::kBehindAdvert)
                  : bytes.first(std::min(bytes.size(), LanePool::kRingBytes)));
      lock.lock();
    }
    return socket.send(bytes, caller);
  }
  lock.unlock();
  std::memcpy(copy->copy, bytes.data(), copy->bytes.size());
  lock.lock();
  return stream->end_copy(std::move(*copy));
}

/// What a peer's call lends is copied without the lock, in pieces, and only if it is present: a page that
/// does not come would keep this thread for ever, and whoever waits for the lock with it.
std::size_t Stack::receive_lent(Lock& lock, Stream& stream, std::span<std::byte> out, std::size_t peeked,
                                bool peek) {
  std::size_t done = 0;
  for (int tries = 0; tries < kTries && done < out.size();) {
    const auto loan = stream.lent(out.size() - done, peeked);
    if (!loan) break;
    const auto& [memory, address, count, terms, is_all] = loan->bytes;
    lock.unlock();
    const bool is_present = memory->is_present(address, count);
    const std::size_t copied = is_present ? memory->read(address, out.subspan(done, count)) : 0;
    lock.lock();
    if (!is_present) {
      stream.decline(*loan);
      break;
    }
    const std::size_t counted = stream.settle(*loan, copied, peek);
    done += counted;
    if (peek && counted != 0) break;
    if (counted == 0) ++tries;
  }
  return done;
}

Answer Stack::receive_some(Lock& lock, Socket& socket, std::span<std::byte> out, bool peek) {
  const auto stream = socket.stream();
  std::size_t done = 0;
  while (!peek && done < out.size()) {
    auto chunk = stream->take_chunk(out.size() - done);
    if (!chunk) break;
    lock.unlock();
    std::memcpy(out.data() + done, chunk->bytes.data(), chunk->bytes.size());
    lock.lock();
    done += chunk->bytes.size();
    stream->count_copied(chunk->bytes.size());
    stream->give_back(std::move(*chunk->slot));
  }
  if (done != 0) return done;
  const Answer got = socket.receive(out, peek);
  if (!got && got.error() != EAGAIN) return got;
  done = got.value_or(0);
  if (done == out.size() || !stream->may_be_lent()) return got;
  done += receive_lent(lock, *stream, out.subspan(std::min(done, out.size())), peek ? done : 0, peek);
  return done != 0 ? Answer(done) : got;
}

Answer Stack::send(int fd, std::span<const std::byte> bytes, int flags) {
  Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR)) != 0) return std::unexpected(EOPNOTSUPP);
  if (bytes.data() == nullptr && !bytes.empty()) return std::unexpected(EFAULT);
  const Held socket = *found;
  const bool waits = may_wait(*socket, flags);
  const Time deadline = deadline_of(socket->send_timeout);
  std::size_t done = 0;
  Answer sent = 0;
  try {
    do {
      sent = until_done(
          lock, socket, waits, deadline,
          [&] { return send_some(lock, socket->socket, bytes.subspan(done), waits ? &done : nullptr); },
          EAGAIN, Wants::room);
      done += sent.value_or(0);
      // Why no more goes is for the next call to say.
    } while (sent && done < bytes.size() && (socket->socket.events() & (POLLERR | POLLHUP)) == 0);
  } catch (const std::bad_alloc&) {  // what the call lends is the caller's again
    done += socket->socket.end_send(bytes.subspan(done), &done);
    if (done == 0) throw;
    return done;
  }
  done += socket->socket.end_send(bytes.subspan(done), &done);
  // Also who has sent less than was asked for takes that for full (epoll(7)), and waits for an edge.
  if (!sent && sent.error() == EAGAIN) socket->show_full();
  if (sent || done > 0) return done;
  if (sent.error() == EPIPE && (flags & MSG_NOSIGNAL) == 0) raise_broken_pipe(lock);
  return sent;
}

Answer Stack::receive(int fd, std::span<std::byte> out, int flags, int* said,
                      std::optional<rdmc_member_event>* event) {
  Lock lock(lock_);
  const auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const bool of_messages = (*found)->socket.keeps_messages();
  const int known = MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL | MSG_NOSIGNAL | (of_messages ? MSG_TRUNC : 0);
  if ((flags & ~known) != 0) return std::unexpected(EOPNOTSUPP);
  if (out.data() == nullptr && !out.empty()) return std::unexpected(EFAULT);
  const Held socket = *found;
  const bool waits = may_wait(*socket, flags);
  const bool peek = (flags & MSG_PEEK) != 0;
  const bool wants_all = (flags & MSG_WAITALL) != 0 && !peek;
  const Time deadline = deadline_of(socket->receive_timeout);
  if (of_messages) {
    if (socket->group) socket->group->want_events(event != nullptr);
    bool is_message = false;  // not the end
    const auto got = until_done(lock, socket, waits, deadline, [&]() -> Answer {
      if (event != nullptr && socket->group && (*event = socket->group->take_event())) return 0;
      is_message = socket->socket.has_message();
      return socket->socket.receive(out, peek);
    });
    if (!got) return got;
    if (event != nullptr && *event) return *said = MSG_OOB, 0;
    if (said != nullptr) *said = *got > out.size() ? MSG_TRUNC : is_message ? MSG_EOR : 0;
    return (flags & MSG_TRUNC) != 0 ? *got : std::min(*got, out.size());
  }
  for (std::size_t done = 0;;) {
    // Why there is no more is for the next call to say.
    if (done > 0 && (socket->socket.events() & POLLERR) != 0) return done;
    const auto got = until_done(
        lock, socket, waits, deadline,
        [&] { return receive_some(lock, socket->socket, out.subspan(done), peek); }, EAGAIN, Wants::bytes);
    // As Linux: who asks for nothing has waited for something, and that is all.
    const bool has_waited = !got && waits && (got.error() == EAGAIN || got.error() == EINTR);
    if (has_waited && out.empty()) return 0;
    if (!got) return done > 0 ? Answer(done) : got;
    done += *got;
    if (*got == 0 || done == out.size() || !wants_all) return done;
  }
}

Answer Stack::shutdown(int fd, int how) {
  std::optional<control::Listener> listener;  // ends without the lock
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
    socket.is_bound = socket.port_was_named;  // as the kernel's is
  }
  socket.on_change(false);
  deliver_own();
  return answer;
}

Answer Stack::close(int fd, bool may_linger) {
  const UnderWay counted(under_way_);
  std::optional<control::Listener> listener;  // ends without the lock
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  Held socket = std::move(*found);
  // Other threads' calls end now, also when this one lingers.
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
  // With the lock: nobody is to see a descriptor that is there and is no socket.
  sockets_.erase(fd);
  socket->tcp.reset();
  socket->owned.reset();
  const auto session = socket->session;
  const Leaving leaving = leaving_of(*socket, may_linger);
  socket.reset();  // with the lock, too: it lets go of its stream
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
      if (is_ours[i]) each.revents = events(each.fd, each.events);  // POLLNVAL: it was closed meanwhile
      count += each.revents != 0;
    }
    const Time now = monotonic_now();
    if (count != 0 || now >= deadline) return count;
    rest = deadline == Time::never() ? Time::never() - Time{} : deadline - now;
  }
}

}  // namespace rdmc::sockets
