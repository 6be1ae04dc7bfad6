// How long a message takes by each algorithm, so that `auto` can choose: a model of a few parameters, which
// are fitted to what former messages or a short probe took. Pure; any thread.
//
// A message takes as long as its critical path: some bytes over a link, some blocks that each cost a member
// a moment whatever their size, and some hops of latency. With racks behind slower uplinks, the busiest
// uplink may take longer.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/relay/schedule.hpp"

namespace rdmc::relay {

/// What a group's paths are like.
struct PathParameters {
  double bits_per_second = 1e10;      ///< of a member's link each way, of message bytes; > 0
  double uplink_bits_per_second = 0;  ///< of a rack's uplink each way; 0: no slower than what is behind it
  double block_seconds = 20e-6;       ///< that a block costs a member beside its bytes
  double hop_seconds = 30e-6;         ///< from the end of a block's sending until it can be passed on
};

/// What one message lies in: members, racks (nothing known: all in one), bytes.
struct MessageShape {
  std::uint32_t members = 2;
  Racks racks{};
  std::uint64_t bytes = 0;
};

/// The longest way to the last member: message bytes over a link, blocks, hops.
struct CriticalPath {
  double bytes = 0;
  double blocks = 0;
  double hops = 0;
};
CriticalPath critical_path(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes);

/// How many messages' bytes cross the busiest uplink in one direction; 0 with one rack.
double uplink_messages(Algorithm algorithm, const MessageShape& message);

/// From the root's send to the last delivery.
double cost_seconds(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                    const PathParameters& path);

struct Choice {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  std::uint32_t block_bytes = 0;
  double seconds = 0;  ///< by the model
};
/// The cheapest of these algorithms and block sizes (neither empty); of equals the first.
Choice cheapest(const MessageShape& message, const PathParameters& path,
                std::span<const Algorithm> algorithms, std::span<const std::uint32_t> block_sizes);

}  // namespace rdmc::relay
