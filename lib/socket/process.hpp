// The sockets of the process, which the C functions use. There is one Stack. It is made when it is first
// needed and ended when the process exits. A child of fork() has none of its parent's sockets. Any thread may
// call anything.
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

  /// Returns the stack to which `fd` may belong; -1 means no descriptor yet. Errors: EOPNOTSUPP if `fd` was a
  /// socket of the parent process, EBADF if the process is exiting.
  std::expected<Stack*, int> stack_for(int fd);
  /// Closes `fd` if it was a socket of the parent process. Returns true if it was one.
  bool close_inherited(int fd);

 private:
  /// Called when the process exits, while TLS still works. Other threads may be in calls. They find no socket
  /// any more, and the memory is not freed.
  static void end();
  static void before_fork();
  static void in_parent();
  static void in_child();
  bool is_inherited(int fd);

  std::mutex mutex_;
  /// The stack, if no descriptor is a socket of the parent process. Then a call needs no mutex. Otherwise
  /// null.
  std::atomic<Stack*> of_all_ = nullptr;
  Stack* stack_ = nullptr;
  bool is_registered_ = false, has_ended_ = false;
  // Descriptors and their inode numbers. If a number means another file now, it belongs to the application.
  std::map<int, ino_t> inherited_;
};

}  // namespace rdmc::sockets
