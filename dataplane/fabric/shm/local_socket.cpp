#include "dataplane/fabric/shm/local_socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rdmc::fabric::shm {
namespace {

constexpr int kBacklog = 256;
constexpr int kSocketType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct LocalAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

/// Returns an address in the abstract namespace. Such an address needs no file, and nothing is left when the
/// socket is closed.
LocalAddress address_of(const Token& name) {
  LocalAddress result;
  result.address.sun_family = AF_UNIX;
  std::string text = "rdmc-shm-";
  constexpr char kDigits[] = "0123456789abcdef";
  for (const std::byte b : name) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  std::memcpy(result.address.sun_path + 1, text.data(), text.size());
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return result;
}

/// Space for the descriptors of a message.
union Ancillary {
  cmsghdr header;
  std::byte bytes[CMSG_SPACE(LocalSocket::kMostDescriptors * sizeof(int))];
};

}  // namespace

Result<LocalSocket> LocalSocket::checked(Descriptor socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
    return fail_errno("asking who is at the other end", errno);
  if (peer.uid != geteuid())
    return fail(Errc::permission_denied,
                "a process of user " + std::to_string(peer.uid) + " is at the other end");
  Descriptor process_end(peer.pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)) : -1);
  return LocalSocket(std::move(socket), peer.pid, std::move(process_end));
}

Result<LocalSocket> LocalSocket::dial(const Token& listener) {
  Descriptor socket(::socket(AF_UNIX, kSocketType, 0));
  if (!socket) return fail_errno("a local socket", errno);
  const LocalAddress to = address_of(listener);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
    if (errno == EAGAIN) return fail(Errc::would_block, "the peer has many pending connections");
    return fail(Errc::peer_failed, "the peer's process does not listen for members of this host any more");
  }
  return checked(std::move(socket));
}

Result<bool> LocalSocket::send(const Message& message, std::span<const int> descriptors) const {
  Message copy = message;
  iovec piece{&copy, sizeof copy};
  Ancillary ancillary{};
  msghdr header{.msg_iov = &piece, .msg_iovlen = 1};
  if (!descriptors.empty()) {
    header.msg_control = &ancillary;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(socket_.get(), &header, MSG_NOSIGNAL) >= 0) return true;
  if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) return false;
  return fail_errno("the peer on this host", errno == EPIPE ? ECONNRESET : errno);
}

Result<std::optional<LocalSocket::Received>> LocalSocket::receive() const {
  Received received;
  iovec piece{&received.message, sizeof received.message};
  Ancillary ancillary{};
  msghdr header{
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof ancillary};
  const ssize_t bytes = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (bytes <= 0) return fail(Errc::peer_failed, "the peer on this host has gone");
  std::size_t taken = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
      Descriptor owned(descriptor);
      if (taken < kMostDescriptors) received.descriptors[taken++] = std::move(owned);
    }
  }
  if (bytes != sizeof received.message || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return fail(Errc::protocol_error, "a message of a wrong length from the peer on this host");
  return received;
}

bool LocalSocket::is_hung_up() const {
  pollfd entry{.fd = socket_.get(), .events = POLLRDHUP};
  const bool closed = poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  return closed || has_process_ended();
}

bool LocalSocket::has_process_ended() const {
  pollfd entry{.fd = process_end_.get(), .events = POLLIN};  // poll() ignores a descriptor of -1.
  return poll(&entry, 1, 0) > 0;
}

Result<LocalListener> LocalListener::open(const Token& name) {
  Descriptor socket(::socket(AF_UNIX, kSocketType, 0));
  if (!socket) return fail_errno("a local socket", errno);
  const LocalAddress at = address_of(name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&at.address), at.bytes) != 0)
    return fail_errno("naming a local socket", errno);
  if (listen(socket.get(), kBacklog) != 0) return fail_errno("listening for members of this host", errno);
  return LocalListener(std::move(socket));
}

std::optional<LocalSocket> LocalListener::accept() const {
  while (true) {
    Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return std::nullopt;
    if (auto pending = LocalSocket::checked(std::move(socket))) return std::move(*pending);
  }
}

}  // namespace rdmc::fabric::shm
