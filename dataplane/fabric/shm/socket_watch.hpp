// A thread that waits on a fabric's sockets while the engine sleeps on a futex or in a port. It only reports
// to the fabric that some socket has an event. The thread stores no events, so it allocates no memory. The
// engine then takes the list of the sockets that have events. A socket is watched for one event. When the
// engine has handled that event, it must call watch() again. A socket that is closed is no longer watched.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::fabric::shm {

class SocketWatch {
 public:
  /// `tell` is called on the watch's thread when a socket has an event. It is not called again before take().
  /// Errors: resource_limit.
  static Result<std::unique_ptr<SocketWatch>> open(std::function<void()> tell);
  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Watches `socket` for one event, which is reported as `tag`. Errors: resource_limit.
  Result<void> watch(const Descriptor& socket, std::uint64_t tag);
  /// Returns the tags of sockets that have events. The span is valid until the next call. If more sockets
  /// have events, `tell` is called again.
  std::span<const std::uint64_t> take();

 private:
  static constexpr std::size_t kMostTaken = 64;
  /// The reasons why the thread is woken.
  static constexpr std::uint64_t kNews = 0, kStop = 1;

  SocketWatch(std::function<void()> tell, Descriptor sockets, Descriptor thread_waits, Descriptor stop)
      : tell_(std::move(tell)),
        sockets_(std::move(sockets)),
        thread_waits_(std::move(thread_waits)),
        stop_(std::move(stop)) {}
  void run();

  std::function<void()> tell_;
  Descriptor sockets_;       // An epoll instance for all watched sockets.
  Descriptor thread_waits_;  // An epoll instance for sockets_ and stop_.
  Descriptor stop_;
  std::array<std::uint64_t, kMostTaken> taken_{};
  std::thread thread_;
};

}  // namespace rdmc::fabric::shm
