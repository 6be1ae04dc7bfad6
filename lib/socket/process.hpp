// The sockets of the process, which the C functions call: one Stack, made when it is first needed and ended
// when the process exits; and what a child of fork() has of its parent's, nothing. Any thread.
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

  /// The stack that `fd` (-1: none yet) is to be looked for in. Errors: EOPNOTSUPP (it was our parent's),
  /// EBADF (the process is at its end).
  std::expected<Stack*, int> stack_for(int fd);
  /// Closes `fd` if it was a socket of our parent's. Whether it was.
  bool close_inherited(int fd);

 private:
  /// When the process exits, while there is TLS. Threads may be inside; they find no socket any more, and the
  /// memory stays.
  static void end();
  static void before_fork();
  static void in_parent();
  static void in_child();
  bool is_inherited(int fd);

  std::mutex mutex_;
  /// The stack, while no descriptor was our parent's: then a call needs no mutex. Else null.
  std::atomic<Stack*> of_all_ = nullptr;
  Stack* stack_ = nullptr;
  bool is_registered_ = false, has_ended_ = false;
  std::map<int, ino_t> inherited_;  // a number that means another file by now is the application's
};

}  // namespace rdmc::sockets
