// One bare queue pair between two members, used directly, for the tests unicast, latency and rate.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "bench/perf/member.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::perf {

inline constexpr std::uint32_t kReceives = 512;

/// A queue pair, and memory that the peer may write to.
struct Endpoint {
  memory::Arena arena;
  std::unique_ptr<fabric::MemoryRegion> region;
  std::unique_ptr<fabric::QueuePair> queue_pair;
  std::span<std::byte> message;

  static Result<Endpoint> make(Member& member, std::size_t bytes);
  /// Connects to the other member's queue pair.
  Result<void> connect(Member& member);
  std::string cause() const { return queue_pair->error_cause(); }
};

/// Returns the error of a run that did not succeed.
Result<void> stopped(const Endpoint& endpoint);

}  // namespace rdmc::perf
