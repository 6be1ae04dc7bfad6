// A thread that sleeps on a fabric's sockets while the engine sleeps on something else, a futex or a port: it
// tells the fabric that some socket has something, and touches nothing else. It keeps nothing, so it needs no
// memory. The engine then takes which sockets these are. A socket is watched until it has something, and
// again when the engine has dealt with that (watch once more). Closing a socket ends its being watched.
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
  /// `tell` is called on the watch's thread when there is something to take, and not again before take().
  /// Errors: resource_limit.
  static Result<std::unique_ptr<SocketWatch>> open(std::function<void()> tell);
  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Errors: resource_limit.
  Result<void> watch(const Descriptor& socket, std::uint64_t tag);
  /// The tags of sockets that have something, until the next call. There may be more: then `tell` is called
  /// again.
  std::span<const std::uint64_t> take();

 private:
  static constexpr std::size_t kMostTaken = 64;
  /// What the thread is woken for.
  static constexpr std::uint64_t kNews = 0, kStop = 1;

  SocketWatch(std::function<void()> tell, Descriptor sockets, Descriptor thread_waits, Descriptor stop)
      : tell_(std::move(tell)),
        sockets_(std::move(sockets)),
        thread_waits_(std::move(thread_waits)),
        stop_(std::move(stop)) {}
  void run();

  std::function<void()> tell_;
  Descriptor sockets_;       // an epoll of all that is watched
  Descriptor thread_waits_;  // an epoll of that one and of stop_
  Descriptor stop_;
  std::array<std::uint64_t, kMostTaken> taken_{};
  std::thread thread_;
};

}  // namespace rdmc::fabric::shm
