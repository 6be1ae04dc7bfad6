// Turns a host's name into addresses without holding up the loop. getaddrinfo() blocks for as long as the
// system's resolver likes and cannot be cancelled, so it runs on threads that nobody waits for: a loop can
// stop meanwhile. The loop's thread only, but for look_up().
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

/// All addresses of `host`, in the order the system prefers, each with `port`. Blocks for as long as the
/// system's resolver likes; any thread. Errors: not_found, timed_out (the resolver is not reachable now),
/// io_error.
Result<std::vector<Address>> look_up(const std::string& host, std::uint16_t port);

class Resolver {
 public:
  using Done = std::move_only_function<void(Result<std::vector<Address>>)>;

  explicit Resolver(std::weak_ptr<LoopCore> core);

  /// look_up() elsewhere. `done` runs on the loop's thread, or never when the loop stops before.
  void resolve(std::string host, std::uint16_t port, Done done);

  /// The answer of a thread, brought to the loop.
  void finish(std::uint64_t query, Result<std::vector<Address>> result);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::map<std::uint64_t, Done> waiting_;
  std::uint64_t next_query_ = 0;
};

}  // namespace rdmc::control
