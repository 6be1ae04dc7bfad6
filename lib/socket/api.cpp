// The C functions: the process's Stack, and errno.

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/include/rdmc/socket.h"
#include "lib/socket/process.hpp"

namespace {

using rdmc::sockets::Answer;
using rdmc::sockets::Process;
using rdmc::sockets::Stack;

template <typename Call>
ssize_t answer_of(int fd, Call call) {
  try {
    const auto stack = Process::instance().stack_for(fd);
    const Answer answer = stack ? call(**stack) : Answer(std::unexpected(stack.error()));
    if (answer) return static_cast<ssize_t>(*answer);
    errno = answer.error();
  } catch (const std::exception&) {  // memory, or a length that no memory has
    errno = ENOMEM;
  }
  return -1;
}

template <typename Call>
int int_of(int fd, Call call) {
  return static_cast<int>(answer_of(fd, call));
}

/// EMSGSIZE: too many pieces; EINVAL: more than a ssize_t can say; EFAULT.
Answer bytes_in(const msghdr& message) {
  if (message.msg_iovlen > IOV_MAX) return std::unexpected(EMSGSIZE);
  if (message.msg_iov == nullptr && message.msg_iovlen != 0) return std::unexpected(EFAULT);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    if (message.msg_iov[i].iov_base == nullptr && message.msg_iov[i].iov_len != 0)
      return std::unexpected(EFAULT);
    if (message.msg_iov[i].iov_len > std::size_t{SSIZE_MAX} - bytes) return std::unexpected(EINVAL);
    bytes += message.msg_iov[i].iov_len;
  }
  return bytes;
}

/// What needs no gathering.
std::optional<std::span<std::byte>> only_piece(const msghdr& message) {
  if (message.msg_iovlen != 1) return std::nullopt;
  return std::span(static_cast<std::byte*>(message.msg_iov[0].iov_base), message.msg_iov[0].iov_len);
}

constexpr std::size_t kEventBytes = CMSG_SPACE(sizeof(rdmc_member_event));

/// As control data, of which there is no other.
void put_event(msghdr& message, const std::optional<rdmc_member_event>& event) {
  message.msg_controllen = event ? kEventBytes : 0;
  if (!event) return;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = RDMC_SOL_SOCKET;
  head->cmsg_type = RDMC_MEMBER_EVENT;
  head->cmsg_len = CMSG_LEN(sizeof *event);
  std::memcpy(CMSG_DATA(head), &*event, sizeof *event);
}

}  // namespace

int rdmc_socket(int domain, int type, int protocol) {
  return int_of(-1, [&](Stack& stack) { return stack.socket(domain, type, protocol); });
}

int rdmc_bind(int fd, const sockaddr* address, socklen_t length) {
  return int_of(fd, [&](Stack& stack) { return stack.bind(fd, address, length); });
}

int rdmc_listen(int fd, int backlog) {
  return int_of(fd, [&](Stack& stack) { return stack.listen(fd, backlog); });
}

int rdmc_accept(int fd, sockaddr* address, socklen_t* length) {
  return rdmc_accept4(fd, address, length, 0);
}

int rdmc_accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return int_of(fd, [&](Stack& stack) { return stack.accept(fd, address, length, flags); });
}

int rdmc_connect(int fd, const sockaddr* address, socklen_t length) {
  return int_of(fd, [&](Stack& stack) { return stack.connect(fd, address, length); });
}

ssize_t rdmc_send(int fd, const void* bytes, size_t count, int flags) {
  return answer_of(fd, [&](Stack& stack) {
    return stack.send(fd, {static_cast<const std::byte*>(bytes), count}, flags);
  });
}

ssize_t rdmc_recv(int fd, void* bytes, size_t count, int flags) {
  return answer_of(fd, [&](Stack& stack) {
    return stack.receive(fd, {static_cast<std::byte*>(bytes), count}, flags);
  });
}

ssize_t rdmc_sendmsg(int fd, const msghdr* message, int flags) {
  return answer_of(fd, [&](Stack& stack) -> Answer {
    if (message == nullptr) return std::unexpected(EFAULT);
    if (message->msg_name != nullptr || message->msg_controllen != 0) return std::unexpected(EOPNOTSUPP);
    const Answer bytes = bytes_in(*message);
    if (!bytes) return bytes;
    if (const auto whole = only_piece(*message)) return stack.send(fd, *whole, flags);
    std::vector<std::byte> gathered;
    gathered.reserve(*bytes);
    for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
      const auto* const from = static_cast<const std::byte*>(message->msg_iov[i].iov_base);
      gathered.insert(gathered.end(), from, from + message->msg_iov[i].iov_len);
    }
    const Answer sent = stack.send(fd, gathered, flags);
    if (sent) stack.count_copied(fd, *sent);
    return sent;
  });
}

ssize_t rdmc_recvmsg(int fd, msghdr* message, int flags) {
  return answer_of(fd, [&](Stack& stack) -> Answer {
    if (message == nullptr) return std::unexpected(EFAULT);
    const Answer room = bytes_in(*message);
    if (!room) return room;
    const auto whole = only_piece(*message);
    const auto scattered = std::make_unique_for_overwrite<std::byte[]>(whole ? 0 : *room);
    const std::span received = whole.value_or(std::span(scattered.get(), whole ? 0 : *room));
    int said = 0;
    std::optional<rdmc_member_event> event;
    const bool wants_events = message->msg_control != nullptr && message->msg_controllen >= kEventBytes;
    const Answer got = stack.receive(fd, received, flags, &said, wants_events ? &event : nullptr);
    if (!got) return got;
    message->msg_namelen = 0;
    put_event(*message, event);
    message->msg_flags = said;
    if (whole) return got;
    const std::size_t here_are = std::min(*got, received.size());
    std::size_t given = 0;
    for (std::size_t i = 0; i < message->msg_iovlen && given < here_are; ++i) {
      const std::size_t here = std::min(message->msg_iov[i].iov_len, here_are - given);
      std::memcpy(message->msg_iov[i].iov_base, &received[given], here);
      given += here;
    }
    stack.count_copied(fd, given);
    return got;
  });
}

void* rdmc_alloc(size_t bytes) {
  void* memory = nullptr;
  (void)answer_of(-1, [&](Stack& stack) -> Answer {
    const auto made = stack.allocate(bytes);
    if (!made) return std::unexpected(made.error());
    memory = *made;
    return 0;
  });
  return memory;
}

int rdmc_free(void* memory) {
  return int_of(-1, [&](Stack& stack) { return stack.deallocate(memory); });
}

ssize_t rdmc_send_zc(int fd, const void* bytes, size_t count, int flags, uint64_t* number) {
  return answer_of(fd, [&](Stack& stack) -> Answer {
    std::uint64_t unused = 0;
    return stack.send_in_place(fd, {static_cast<const std::byte*>(bytes), count}, flags,
                               number == nullptr ? unused : *number);
  });
}

int rdmc_sent(int fd, uint64_t number, int flags) {
  return int_of(fd, [&](Stack& stack) { return stack.wait_sent(fd, number, flags); });
}

ssize_t rdmc_recv_zc(int fd, void** bytes, int flags) {
  return answer_of(fd, [&](Stack& stack) { return stack.receive_in_place(fd, bytes, flags); });
}

int rdmc_release(void* bytes) {
  return int_of(-1, [&](Stack& stack) { return stack.release(bytes); });
}

int rdmc_shutdown(int fd, int how) {
  return int_of(fd, [&](Stack& stack) { return stack.shutdown(fd, how); });
}

int rdmc_close(int fd) {
  if (Process::instance().close_inherited(fd)) return 0;
  return int_of(fd, [&](Stack& stack) { return stack.close(fd); });
}

int rdmc_poll(pollfd* descriptors, nfds_t count, int timeout_ms) {
  return int_of(-1, [&](Stack& stack) { return stack.poll({descriptors, count}, timeout_ms); });
}

int rdmc_pollfd(int fd) {
  return int_of(fd, [&](Stack& stack) { return stack.pollfd_of(fd); });
}

int rdmc_getsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  return int_of(fd, [&](Stack& stack) { return stack.get_option(fd, level, name, value, length); });
}

int rdmc_setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  return int_of(fd, [&](Stack& stack) { return stack.set_option(fd, level, name, value, length); });
}

int rdmc_getsockname(int fd, sockaddr* address, socklen_t* length) {
  return int_of(fd, [&](Stack& stack) { return stack.get_name(fd, address, length, false); });
}

int rdmc_getpeername(int fd, sockaddr* address, socklen_t* length) {
  return int_of(fd, [&](Stack& stack) { return stack.get_name(fd, address, length, true); });
}

int rdmc_fcntl(int fd, int command, int argument) {
  return int_of(fd, [&](Stack& stack) { return stack.control(fd, command, argument); });
}
