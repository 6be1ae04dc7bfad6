#include "controlplane/membership/signs_of_death.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "controlplane/connect/loop_core.hpp"
#include "controlplane/connect/socket.hpp"

namespace rdmc::membership {
namespace {

using control::LoopCore;
using Stream = boost::asio::posix::stream_descriptor;

/// Waits until a descriptor becomes ready, and calls `ready` once.
class Awaited final : public control::LoopMember, public std::enable_shared_from_this<Awaited> {
 public:
  Awaited(std::shared_ptr<LoopCore> core, std::function<void(int descriptor)> ready)
      : core_(std::move(core)), stream_(core_->context()), ready_(std::move(ready)) {}

  void begin(Descriptor descriptor, Stream::wait_type what) {
    core_->add(shared_from_this());
    boost::system::error_code error;
    stream_.assign(descriptor.get(), error);
    // epoll has no space for another descriptor. Other signs must then show the death.
    if (error) return;
    arm(descriptor.release(), what);
  }
  /// Calls `ready` in a later turn of the loop, and never within this call.
  void tell_later(int descriptor) {
    boost::asio::post(core_->context(), [self = shared_from_this(), descriptor] { self->tell(descriptor); });
  }
  void end() {
    ready_ = nullptr;
    core_->remove(this);
    boost::system::error_code ignored;
    stream_.close(ignored);
  }
  void on_loop_stop() override { end(); }

 private:
  /// Waits until `fd` is ready. The loop may report readiness without cause, and that would look like a death
  /// here. So poll(2) checks the descriptor again.
  void arm(int fd, Stream::wait_type what) {
    stream_.async_wait(what, [self = shared_from_this(), fd, what](boost::system::error_code aborted) {
      if (aborted || !self->ready_) return;
      pollfd now{fd, static_cast<short>(what == Stream::wait_read ? POLLIN : POLLOUT), 0};
      ::poll(&now, 1, 0) > 0 ? self->tell(fd) : self->arm(fd, what);
    });
  }
  void tell(int descriptor) {
    if (const auto ready = std::exchange(ready_, nullptr)) ready(descriptor);
  }

  const std::shared_ptr<LoopCore> core_;
  Stream stream_;
  std::function<void(int)> ready_;
};

class Handle final : public Watching {
 public:
  explicit Handle(std::shared_ptr<Awaited> awaited) : awaited_(std::move(awaited)) {}
  ~Handle() override { awaited_->end(); }

 private:
  std::shared_ptr<Awaited> awaited_;
};

/// PIDFD_THREAD, which exists from Linux 6.9 on. The headers of Debian 12 do not define it.
constexpr unsigned kPidfdThread = O_EXCL;

/// Opens a pidfd of the thread. Opens a pidfd of the process if the kernel has no pidfds of threads or if the
/// thread does not exist. If the returned descriptor is empty, errno has the cause.
Descriptor open_pidfd(const ProcessIdentity& process) {
  const auto open = [](std::uint32_t number, unsigned flags) {
    return Descriptor(
        // glibc has a wrapper for this system call only from version 2.36 on.
        static_cast<int>(::syscall(SYS_pidfd_open, number, flags)));
  };
  const std::string task = "/proc/" + std::to_string(process.pid) + "/task/" + std::to_string(process.thread);
  if (process.thread != 0 && ::access(task.c_str(), F_OK) == 0) {
    if (Descriptor pidfd = open(process.thread, kPidfdThread); pidfd || errno != EINVAL) return pidfd;
  }
  return open(process.pid, 0);
}

/// The result of looking for a process. `pidfd` is empty if the process has ended.
struct Found {
  bool can_be_known = false;
  Descriptor pidfd = {};
};

Found find_process(const ProcessIdentity& self, const ProcessIdentity& process) {
  // On another host or in another namespace, the process id and the start time have another meaning.
  if (process.host == 0 || process.host != self.host || process.pid_namespace != self.pid_namespace ||
      process.time_namespace != self.time_namespace || process.started == 0 || self.started == 0)
    return {};
  Descriptor pidfd = open_pidfd(process);
  if (!pidfd && errno == ESRCH) return {.can_be_known = true};
  // Another process may have the same process id by now. Then its start time differs. The same is true if a
  // thread of another process has this id. No pidfd of a process can be opened with it then. If /proc does
  // not show the start time, nothing is proved, and the pidfd is watched.
  const std::uint64_t started = peer::start_of_process(std::to_string(process.pid));
  if (started != 0 && started != process.started) return {.can_be_known = true};
  const bool is_open = static_cast<bool>(pidfd);
  return {.can_be_known = is_open, .pidfd = std::move(pidfd)};
}

}  // namespace

std::unique_ptr<Watching> watch_exit(control::ControlLoop& loop, const ProcessIdentity& self,
                                     const ProcessIdentity& process, std::function<void()> exited) {
  auto [can_be_known, pidfd] = find_process(self, process);
  if (!can_be_known) return nullptr;
  const auto awaited =
      std::make_shared<Awaited>(loop.core(), [exited = std::move(exited)](int) { exited(); });
  if (!pidfd)
    awaited->tell_later(-1);
  else
    awaited->begin(std::move(pidfd), Stream::wait_read);
  return std::make_unique<Handle>(awaited);
}

bool has_exited(const ProcessIdentity& self, const ProcessIdentity& process) {
  const auto [can_be_known, pidfd] = find_process(self, process);
  pollfd exit{pidfd.get(), POLLIN, 0};
  return can_be_known && (!pidfd || ::poll(&exit, 1, 0) > 0);
}

std::unique_ptr<Watching> probe_listener(control::ControlLoop& loop, const Address& address,
                                         std::function<void(bool)> answered) {
  sockaddr_storage storage;
  const socklen_t length = control::to_sockaddr(address, storage);
  Descriptor socket(
      ::socket(address.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return nullptr;
  const bool refused =
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 && errno == ECONNREFUSED;
  const auto awaited =
      std::make_shared<Awaited>(loop.core(), [refused, answered = std::move(answered)](int descriptor) {
        answered(refused || control::connect_result(descriptor) == ECONNREFUSED);
      });
  if (refused)
    awaited->tell_later(-1);
  else
    awaited->begin(std::move(socket), Stream::wait_write);
  return std::make_unique<Handle>(awaited);
}

}  // namespace rdmc::membership
