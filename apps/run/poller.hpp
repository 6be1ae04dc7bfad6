// Waits for descriptors with epoll, and calls the function that belongs to each descriptor that is ready. It
// belongs to one thread. A function may add and remove descriptors, also its own.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::run {

class Poller {
 public:
  using Handler = std::function<void()>;

  /// Errors: resource_limit.
  static Result<Poller> create();

  /// Calls `handler` while `fd` is ready for `events` (EPOLLIN or EPOLLOUT) or has ended. Returns false if
  /// epoll cannot watch this kind of file. A regular file, for example, is always ready.
  bool add(int fd, std::uint32_t events, Handler handler);
  /// Must be called before `fd` is closed. Does nothing if `fd` was not added.
  void remove(int fd);
  /// Waits at most `timeout_ms`, or without limit if it is -1, and calls the functions.
  void wait(int timeout_ms);

 private:
  struct Entry {
    std::uint64_t number = 0;  ///< distinguishes two uses of the same descriptor number
    std::shared_ptr<Handler> handler;
  };

  Descriptor epoll_;
  std::map<int, Entry> entries_;
  std::uint64_t last_number_ = 0;
};

}  // namespace rdmc::run
