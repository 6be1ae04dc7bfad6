// Resolves a host's name to addresses without blocking the control loop. getaddrinfo() can block for an
// unlimited time, and it cannot be cancelled. It therefore runs on detached threads, so a loop can stop
// before such a thread ends. All functions except look_up() must be called on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

class LoopCore;

/// Returns all addresses of `host`, each with the port number `port`, in the order that the system prefers.
/// Blocks as long as the system's resolver needs. May be called from any thread. Errors: not_found; timed_out
/// if the system's resolver cannot be reached now; io_error.
Result<std::vector<Address>> look_up(const std::string& host, std::uint16_t port);

class Resolver {
 public:
  using Done = std::move_only_function<void(Result<std::vector<Address>>)>;

  explicit Resolver(std::weak_ptr<LoopCore> core);

  /// Runs look_up() on another thread, and afterwards calls `done` on the loop's thread. If the loop stops
  /// before that, `done` is never called. Errors: those of look_up(), and resource_limit if no thread can be
  /// started.
  void resolve(std::string host, std::uint16_t port, Done done);

  /// Called on the loop's thread with the answer to a query.
  void finish(std::uint64_t query, Result<std::vector<Address>> result);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::map<std::uint64_t, Done> waiting_;
  std::uint64_t next_query_ = 0;
};

}  // namespace rdmc::control
