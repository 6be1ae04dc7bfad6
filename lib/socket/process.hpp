// The sockets of the process, which the C functions use. There is one Stack. It is made when it is first
// needed, and ended when the process exits. A child process after fork() has none of the sockets of its
// parent. Any thread may call any function.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <expected>
#include <map>
#include <mutex>

#include "lib/socket/stack.hpp"

namespace rdmc::sockets {

class Process {
 public:
  static Process& instance();

  /// Returns the stack to which `fd` may belong. An `fd` of -1 means that there is no descriptor yet. Errors:
  /// EOPNOTSUPP if `fd` was a socket of the parent process, EBADF if the process is exiting.
  std::expected<Stack*, int> stack_for(int fd);
  /// Closes `fd` if it was a socket of the parent process. Returns true if it closed `fd`.
  bool close_inherited(int fd);

 private:
  /// Called when the process exits, while TLS can still be used. Other threads may be inside calls. They find
  /// no socket any more, and the memory is not freed.
  static void end();
  static void before_fork();
  static void in_parent();
  static void in_child();
  bool is_inherited(int fd);

  std::mutex mutex_;
  /// The stack, if no descriptor is a socket of the parent process; otherwise null. If it is not null, a call
  /// needs no mutex.
  std::atomic<Stack*> of_all_ = nullptr;
  Stack* stack_ = nullptr;
  bool is_registered_ = false, has_ended_ = false;
  // Descriptors and their inode numbers. If a descriptor has another inode now, it belongs to the
  // application.
  std::map<int, ino_t> inherited_;
};

}  // namespace rdmc::sockets
