// The C functions of rdmc/socket.h. They call the process's Stack and set errno.

#include <cerrno>
#include <exception>

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
  } catch (const std::exception&) {  // There is no memory, or the length is greater than any memory.
    errno = ENOMEM;
  }
  return -1;
}

template <typename Call>
int int_of(int fd, Call call) {
  return static_cast<int>(answer_of(fd, call));
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
    return stack.send_message(fd, *message, flags);
  });
}

ssize_t rdmc_recvmsg(int fd, msghdr* message, int flags) {
  return answer_of(fd, [&](Stack& stack) -> Answer {
    if (message == nullptr) return std::unexpected(EFAULT);
    return stack.receive_message(fd, *message, flags);
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
