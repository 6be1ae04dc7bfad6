// A thread that sleeps on a fabric's sockets while the engine sleeps on something else, a futex or a port: it
// notes which sockets have something, tells the fabric, and touches nothing else. A socket is watched until
// it has something, and again when the engine has dealt with that (watch once more). Closing a socket ends
// its being watched.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::fabric::shm {

class SocketWatch {
 public:
  /// `tell` is called on the watch's thread, after something was noted. Errors: resource_limit.
  static Result<std::unique_ptr<SocketWatch>> open(std::function<void()> tell);
  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Errors: resource_limit.
  Result<void> watch(const Descriptor& socket, std::uint64_t tag);
  /// Moves the tags of sockets that have something to `out`, which is empty.
  void take(std::vector<std::uint64_t>& out);

 private:
  SocketWatch(std::function<void()> tell, Descriptor epoll, Descriptor stop)
      : tell_(std::move(tell)), epoll_(std::move(epoll)), stop_(std::move(stop)) {}
  void run();

  std::function<void()> tell_;
  Descriptor epoll_, stop_;
  std::mutex mutex_;
  std::vector<std::uint64_t> noted_;
  std::thread thread_;
};

}  // namespace rdmc::fabric::shm
