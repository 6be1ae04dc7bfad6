// One bare queue pair between two members, nothing above it: what unicast, latency and rate measure.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "bench/perf/member.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::perf {

inline constexpr std::uint32_t kReceives = 512;

/// A queue pair, and memory that the peer may write into.
struct Endpoint {
  memory::Arena arena;
  std::unique_ptr<fabric::MemoryRegion> region;
  std::unique_ptr<fabric::QueuePair> queue_pair;
  std::span<std::byte> message;

  static Result<Endpoint> make(Member& member, std::size_t bytes);
  /// With the other member's.
  Result<void> connect(Member& member);
  std::string cause() const { return queue_pair->error_cause(); }
};

/// The end of a run that did not go well.
Result<void> stopped(const Endpoint& endpoint);

}  // namespace rdmc::perf
