#include "lib/socket/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "controlplane/auth/tls_setup.hpp"
#include "controlplane/launch/key_file.hpp"
#include "dataplane/base/own_descriptors.hpp"

namespace rdmc::sockets {
namespace {

Process process;

std::string environment(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

StackOptions options_of_environment() {
  StackOptions options{.context = peer::Context::of_process()};
  if (const auto fabric = environment("RDMC_FABRIC"); !fabric.empty()) options.fabric = fabric;
  options.device = environment("RDMC_DEVICE");
  options.insecure = environment("RDMC_INSECURE") == "1";
  options.encrypt = environment("RDMC_ENCRYPT") == "1";
  // Without a key, certificates or RDMC_INSECURE=1, listen() and connect() fail with EHOSTUNREACH or
  // EOPNOTSUPP.
  if (options.insecure) return options;
  const control::Identity identity{.key_file = {},
                                   .certificates = {.authority = environment("RDMC_AUTHORITY"),
                                                    .certificate = environment("RDMC_CERTIFICATE"),
                                                    .private_key = environment("RDMC_PRIVATE_KEY")}};
  options.certificates = identity.certificates;
  if (!identity.has_certificates())
    options.key_file = rdmc::control::key_file(rdmc::control::environment()).value_or("");
  return options;
}

/// Returns the inode number of the file that `fd` names, or 0 if there is no such file.
ino_t file_of(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 ? about.st_ino : 0;
}

}  // namespace

Process& Process::instance() {
  return process;
}

std::expected<Stack*, int> Process::stack_for(int fd) {
  if (Stack* const stack = of_all_.load(std::memory_order_acquire)) return stack;
  const std::lock_guard lock(mutex_);
  if (has_ended_) return std::unexpected(EBADF);
  if (is_inherited(fd)) return std::unexpected(EOPNOTSUPP);
  if (stack_ == nullptr) {
    if (!std::exchange(is_registered_, true)) {
      ::pthread_atfork(before_fork, in_parent, in_child);
      control::prepare_tls();
      std::atexit(end);
    }
    stack_ = new Stack(options_of_environment());
  }
  if (inherited_.empty()) of_all_.store(stack_, std::memory_order_release);
  return stack_;
}

bool Process::is_inherited(int fd) {
  const auto found = inherited_.find(fd);
  if (found == inherited_.end()) return false;
  if (file_of(fd) == found->second) return true;
  inherited_.erase(found);
  return false;
}

bool Process::close_inherited(int fd) {
  const std::lock_guard lock(mutex_);
  if (!is_inherited(fd)) return false;
  inherited_.erase(fd);
  return ::close(fd) == 0;
}

void Process::end() {
  {
    const std::lock_guard lock(process.mutex_);
    process.has_ended_ = true;
    process.of_all_ = nullptr;
  }
  if (process.stack_ != nullptr) process.stack_->end();
}

void Process::before_fork() {
  process.mutex_.lock();
  if (process.stack_ != nullptr) process.stack_->before_fork();
}

void Process::in_parent() {
  if (process.stack_ != nullptr) process.stack_->after_fork();
  process.mutex_.unlock();
}

/// Called in the child after fork(). The child has none of the stack's threads. So the stack's memory is left
/// as it is and never used again. The descriptors of the stack are closed. Otherwise they would stay open in
/// the child after the parent's death, and the peers would never notice the death. The descriptor numbers
/// that the application knows are kept in use by a useless socket.
void Process::in_child() {
  std::map<int, int> known;  // each descriptor and its flags (FD_CLOEXEC)
  if (process.stack_ != nullptr)
    for (const int fd : process.stack_->descriptors()) known[fd] = ::fcntl(fd, F_GETFD);
  process.stack_ = nullptr;
  process.of_all_ = nullptr;
  rdmc::close_inherited();
  const int nothing = known.empty() ? -1 : ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (const auto& [fd, flags] : known) {
    const bool is_there = fd == nothing || ::dup2(nothing, fd) >= 0;
    if (is_there && ::fcntl(fd, F_SETFD, flags) == 0) process.inherited_[fd] = file_of(nothing);
  }
  if (nothing >= 0 && !known.contains(nothing)) ::close(nothing);
  process.mutex_.unlock();
}

}  // namespace rdmc::sockets
