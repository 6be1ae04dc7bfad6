// The C functions: a Stack for the process, errno, and fork.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <set>
#include <vector>

#include "controlplane/auth/tls_setup.hpp"
#include "controlplane/launch/key_file.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/socket/stack.hpp"

namespace {

using rdmc::sockets::Answer;
using rdmc::sockets::Stack;
using rdmc::sockets::StackOptions;

std::string environment(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

StackOptions options_of_environment() {
  StackOptions options;
  if (const auto fabric = environment("RDMC_FABRIC"); !fabric.empty()) options.fabric = fabric;
  options.insecure = environment("RDMC_INSECURE") == "1";
  options.encrypt = environment("RDMC_ENCRYPT") == "1";
  // Without a key nothing can be listened for or connected to: EHOSTUNREACH and EOPNOTSUPP say so then.
  if (!options.insecure)
    options.key_file = rdmc::control::key_file(rdmc::control::environment()).value_or("");
  return options;
}

/// The process's sockets, from the first call until it exits.
class Process {
 public:
  /// The stack that `fd` (-1: none yet) is to be looked for in. Errors: EOPNOTSUPP (it is our parent's),
  /// EBADF (the process is at its end).
  std::expected<Stack*, int> stack_for(int fd) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return std::unexpected(EBADF);
    if (inherited_.contains(fd)) return std::unexpected(EOPNOTSUPP);
    if (stack_ == nullptr) {
      if (!std::exchange(is_registered_, true)) {
        ::pthread_atfork(before_fork, in_parent, in_child);
        rdmc::control::prepare_tls();
        std::atexit(end);
      }
      stack_ = new Stack(options_of_environment());
    }
    return stack_;
  }
  /// Whether `fd` was a socket of our parent's, which it is no more.
  bool disown(int fd) {
    const std::lock_guard lock(mutex_);
    return inherited_.erase(fd) != 0;
  }

 private:
  /// When the process exits, while there is TLS. Threads may be inside; they find no socket any more, and the
  /// memory stays.
  static void end();
  static void before_fork();
  static void in_parent();
  static void in_child();

  std::mutex mutex_;
  Stack* stack_ = nullptr;
  bool is_registered_ = false, has_ended_ = false;
  std::set<int> inherited_;
};

Process process;

void Process::end() {
  {
    const std::lock_guard lock(process.mutex_);
    process.has_ended_ = true;
  }
  if (process.stack_ != nullptr) process.stack_->end();
}

void Process::before_fork() {
  process.mutex_.lock();
  if (process.stack_ != nullptr) process.stack_->lock().lock();
}

void Process::in_parent() {
  if (process.stack_ != nullptr) process.stack_->lock().unlock();
  process.mutex_.unlock();
}

/// The stack's threads are not here: it is left as it is, and never touched again.
void Process::in_child() {
  if (process.stack_ != nullptr)
    for (const int fd : process.stack_->descriptors()) process.inherited_.insert(fd);
  process.stack_ = nullptr;
  process.mutex_.unlock();
}

template <typename Call>
ssize_t answer_of(int fd, Call call) {
  try {
    const auto stack = process.stack_for(fd);
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

/// EINVAL: more than a ssize_t can say.
Answer bytes_in(const msghdr& message) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    if (message.msg_iov[i].iov_len > std::size_t{SSIZE_MAX} - bytes) return std::unexpected(EINVAL);
    bytes += message.msg_iov[i].iov_len;
  }
  return bytes;
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
    if (message->msg_iovlen > IOV_MAX) return std::unexpected(EMSGSIZE);
    if (message->msg_name != nullptr || message->msg_controllen != 0) return std::unexpected(EOPNOTSUPP);
    std::vector<std::byte> gathered;
    const Answer bytes = bytes_in(*message);
    if (!bytes) return bytes;
    gathered.reserve(*bytes);
    for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
      const auto* const from = static_cast<const std::byte*>(message->msg_iov[i].iov_base);
      gathered.insert(gathered.end(), from, from + message->msg_iov[i].iov_len);
    }
    return stack.send(fd, gathered, flags);
  });
}

ssize_t rdmc_recvmsg(int fd, msghdr* message, int flags) {
  return answer_of(fd, [&](Stack& stack) -> Answer {
    if (message == nullptr) return std::unexpected(EFAULT);
    if (message->msg_iovlen > IOV_MAX) return std::unexpected(EMSGSIZE);
    const Answer room = bytes_in(*message);
    if (!room) return room;
    std::vector<std::byte> received(*room);
    int said = 0;
    std::optional<rdmc_member_event> event;
    const bool wants_events = message->msg_control != nullptr && message->msg_controllen >= kEventBytes;
    const Answer got = stack.receive(fd, received, flags, &said, wants_events ? &event : nullptr);
    if (!got) return got;
    message->msg_namelen = 0;
    put_event(*message, event);
    const std::size_t here_are = std::min(got.value_or(0), received.size());
    std::size_t given = 0;
    for (std::size_t i = 0; i < message->msg_iovlen && given < here_are; ++i) {
      const std::size_t here = std::min(message->msg_iov[i].iov_len, here_are - given);
      std::memcpy(message->msg_iov[i].iov_base, &received[given], here);
      given += here;
    }
    message->msg_flags = said;
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
  if (process.disown(fd)) return ::close(fd);
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
