#include "lib/socket/pollable.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace rdmc::sockets {
namespace {

void drain(int socket) {
  std::array<char, 4096> some;
  while (::recv(socket, some.data(), some.size(), MSG_DONTWAIT) > 0) {
  }
}

bool put_byte(int socket) {
  const char byte = 0;
  return ::send(socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

}  // namespace

Result<Pollable> Pollable::replace(int descriptor) {
  std::array<int, 2> pair;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0)
    return fail_errno("socketpair", errno);
  Descriptor shown(pair[0]), other(pair[1]);
  // Make the buffers as small as the kernel allows, so that a few bytes fill them.
  for (const int end : pair) {
    const int least = 0;
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  }
  const int flags = ::fcntl(descriptor, F_GETFD);
  if (::dup3(shown.get(), descriptor, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) < 0)
    return fail_errno("dup3", errno);
  return Pollable(descriptor, std::move(other));
}

void Pollable::show(short events, bool pulse) {
  const bool all = (events & POLLERR) != 0;
  set_readable(all || (events & (POLLIN | POLLRDHUP)) != 0, pulse);
  set_writable(all || (events & POLLOUT) != 0);
  if ((events & POLLRDHUP) != 0 && !has_ended_) {
    has_ended_ = true;
    ::shutdown(other_.get(), SHUT_WR);
  }
  if ((events & POLLHUP) != 0 && !is_hung_up_) {
    is_hung_up_ = true;
    ::shutdown(other_.get(), SHUT_RDWR);
  }
}

void Pollable::set_readable(bool readable, bool pulse) {
  if (has_ended_ || is_hung_up_) return;  // The descriptor stays readable for ever.
  if (!readable && is_readable_) drain(shown_);
  if (readable && (!is_readable_ || pulse) && !put_byte(other_.get())) {
    drain(shown_);
    put_byte(other_.get());
  }
  is_readable_ = readable;
}

void Pollable::set_writable(bool writable) {
  if (writable == is_writable_ || is_hung_up_) return;
  if (writable) {
    drain(other_.get());
  } else {
    while (put_byte(shown_)) {
    }
  }
  is_writable_ = writable;
}

}  // namespace rdmc::sockets
